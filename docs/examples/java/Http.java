// SPDX-License-Identifier: BSD-2-Clause
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Publishes, cancels and pulls jobs over HTTP, and verifies signed callbacks. Java 17, without libraries; a program of
 * yours would read the answers with its JSON library.
 *
 * <pre>
 * java Http.java publish ROUTE ID DELAY TEXT    stores a job
 * java Http.java cancel ROUTE ID                cancels it
 * java Http.java pull QUEUE                     waits for a job, prints it, acknowledges it
 * java Http.java receive PORT SECRET            prints the next callback if its signature is valid
 * </pre>
 */
public class Http {
    static final long MAX_AGE_S = 300; // older callbacks may be replays of an attacker
    static final String TARRY = System.getenv().getOrDefault("TARRY_HTTP", "http://127.0.0.1:7700");
    static final HttpClient CLIENT = HttpClient.newHttpClient();

    static String quoted(String name) {
        return URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
    }

    static String call(String method, String path, String body, String... headers) throws Exception {
        HttpRequest.Builder request =
            HttpRequest.newBuilder(URI.create(TARRY + path)).method(method, BodyPublishers.ofString(body));
        if (headers.length > 0)
            request.headers(headers);
        HttpResponse<String> answer = CLIENT.send(request.build(), BodyHandlers.ofString());
        if (answer.statusCode() >= 300)
            throw new IllegalStateException(answer.statusCode() + " " + answer.body());
        return answer.body();
    }

    /** Returns a field of a JSON object that contains no escapes. */
    static String field(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": ?\"([^\"\\\\]*)\"").matcher(json);
        return found.find() ? found.group(1) : null;
    }

    static void publish(String route, String id, String delay, String text) throws Exception {
        String answer = call("POST", "/v1/routes/" + quoted(route) + "/jobs", text, "Delay-Id", id, "Deliver-After",
                             delay, "Content-Type", "text/plain");
        System.out.println(field(answer, "id") + " is due at " + field(answer, "due"));
    }

    static void cancel(String route, String id) throws Exception {
        call("DELETE", "/v1/routes/" + quoted(route) + "/jobs/" + quoted(id), "");
        System.out.println(id + " is cancelled");
    }

    static void pull(String queue) throws Exception {
        String at = "/v1/queues/" + quoted(queue), answer = call("POST", at + "/pull?wait=30s", "");
        if (answer.isEmpty())
            return; // no job became due in time
        System.out.println(field(answer, "payload")); // process the job here, then acknowledge it
        call("DELETE", at + "/jobs/" + quoted(field(answer, "id")) + "?token=" + field(answer, "token"), "");
    }

    /** Verifies a callback as https://www.standardwebhooks.com describes it. */
    static boolean isGenuine(String secret, String id, String sent, String signatures, byte[] body) throws Exception {
        if (id == null || signatures == null || sent == null || !sent.matches("\\d{1,12}")
            || Math.abs(Instant.now().getEpochSecond() - Long.parseLong(sent)) > MAX_AGE_S)
            return false;
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.substring("whsec_".length())), "HmacSHA256"));
        mac.update((id + "." + sent + ".").getBytes(StandardCharsets.UTF_8));
        byte[] expected = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes();
        for (String signature : signatures.split(" "))
            if (MessageDigest.isEqual(expected, signature.getBytes()))
                return true;
        return false;
    }

    static void receive(int port, String secret) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", exchange -> {
            try (exchange) {
                byte[] body = exchange.getRequestBody().readAllBytes();
                var headers = exchange.getRequestHeaders();
                boolean genuine =
                    isGenuine(secret, headers.getFirst("webhook-id"), headers.getFirst("webhook-timestamp"),
                              headers.getFirst("webhook-signature"), body);
                System.out.println(genuine ? new String(body, StandardCharsets.UTF_8) : "the signature is wrong");
                exchange.sendResponseHeaders(genuine ? 204 : 401, -1);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            } finally {
                done.countDown();
            }
        });
        server.start();
        done.await();
        server.stop(1);
    }

    public static void main(String[] arg) throws Exception {
        switch (arg[0]) {
            case "publish" -> publish(arg[1], arg[2], arg[3], arg[4]);
            case "cancel" -> cancel(arg[1], arg[2]);
            case "pull" -> pull(arg[1]);
            case "receive" -> receive(Integer.parseInt(arg[1]), arg[2]);
            default -> throw new IllegalArgumentException("see the comment at the beginning of the file");
        }
    }
}
