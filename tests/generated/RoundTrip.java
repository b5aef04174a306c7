// SPDX-License-Identifier: BSD-2-Clause
import java.util.Map;
import tarry.client.ApiClient;
import tarry.client.ApiException;
import tarry.client.api.AdminApi;
import tarry.client.api.JobsApi;
import tarry.client.api.QueuesApi;
import tarry.client.model.ApiError;
import tarry.client.model.Job;
import tarry.client.model.PublishResult;
import tarry.client.model.PulledJob;
import tarry.client.model.Status;

/** A round trip with the generated Java client: {@code java RoundTrip.java URL TOKEN} */
public class RoundTrip {
    public static void main(String[] arg) throws Exception {
        ApiClient client = new ApiClient().setBasePath(arg[0]);
        client.setBearerToken(arg[1]);
        JobsApi jobs = new JobsApi(client);
        QueuesApi queues = new QueuesApi(client);

        var publish = jobs.publishJob("hooks").delayId("order-1").deliverAfter("1h").body(Map.of("order", 1));
        PublishResult published = publish.execute();
        Job job = jobs.getJob("hooks", published.getId()).execute();
        System.out.println("published " + job.getId() + " " + job.getState() + " " + job.getPayload() + " "
                           + job.getDue().equals(published.getDue()));
        PublishResult known = publish.execute();
        System.out.println("duplicate " + known.getDuplicate() + " " + known.getBecause());
        System.out.println("cancelled " + jobs.cancelJob("hooks", published.getId()).execute().getCancelled());
        try {
            jobs.getJob("hooks", published.getId()).execute();
        } catch (ApiException e) {
            System.out.println("error " + e.getCode() + " " + ApiError.fromJson(e.getResponseBody()).getError());
        }

        queues.publishQueueJob("mails").delayId("mail-1").delayKey("k").body(Map.of("mail", 1)).execute();
        PulledJob pulled = queues.pullJobs("mails").wait("8s").execute().getJobs().get(0);
        System.out.println("pulled " + pulled.getId() + " " + pulled.getPayload() + " " + pulled.getKey() + " "
                           + pulled.getExpires() + " " + pulled.getHeaders().get("content-type"));
        System.out.println("acknowledged "
                           + queues.ackJob("mails", pulled.getId()).token(pulled.getToken()).execute().getWas());
        System.out.println("empty " + queues.pullJobs("mails").execute());

        Status status = new AdminApi(client).getStatus().execute();
        System.out.println("status " + status.getReady() + " " + (status.getNowMs() > 1L << 32));
        client.getHttpClient().connectionPool().evictAll();
    }
}
