// SPDX-License-Identifier: BSD-2-Clause
//
// Broker FOLDER - runs HiveMQ with FOLDER/config.xml and its files in FOLDER. It logs connections, subscriptions,
// pings, and messages with their acknowledgements in the form of mosquitto's log, which the tests read.

import com.hivemq.configuration.service.InternalConfigurations;
import com.hivemq.embedded.EmbeddedExtension;
import com.hivemq.embedded.EmbeddedHiveMQ;
import com.hivemq.extension.sdk.api.ExtensionMain;
import com.hivemq.extension.sdk.api.client.ClientContext;
import com.hivemq.extension.sdk.api.client.parameter.InitializerInput;
import com.hivemq.extension.sdk.api.events.client.ClientLifecycleEventListener;
import com.hivemq.extension.sdk.api.events.client.parameters.AuthenticationSuccessfulInput;
import com.hivemq.extension.sdk.api.events.client.parameters.ConnectionStartInput;
import com.hivemq.extension.sdk.api.events.client.parameters.DisconnectEventInput;
import com.hivemq.extension.sdk.api.packets.publish.PublishPacket;
import com.hivemq.extension.sdk.api.packets.subscribe.Subscription;
import com.hivemq.extension.sdk.api.packets.subscribe.SubscribePacket;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartOutput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopOutput;
import com.hivemq.extension.sdk.api.services.Services;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

public final class Broker {
    private Broker() {
    }

    private static void log(String format, Object... values) {
        System.out.println(System.currentTimeMillis() / 1000 + ": " + String.format(format, values));
    }

    private static void logPublish(String client, PublishPacket p) {
        log("Sending PUBLISH to %s (d%d, q%d, r%d, m%d, '%s')", client, p.getDupFlag() ? 1 : 0, p.getQos().getQosNumber(),
                p.getRetain() ? 1 : 0, p.getPacketId(), p.getTopic());
    }

    private static void logSubscriptions(String client, SubscribePacket p) {
        for (Subscription s : p.getSubscriptions()) {
            log("%s %d %s", client, s.getQos().getQosNumber(), s.getTopicFilter());
        }
    }

    /** Logs what the broker exchanges with a client on its new connection. */
    private static void watch(InitializerInput connection, ClientContext c) {
        String client = connection.getClientInformation().getClientId();
        Map<Integer, SubscribePacket> subscribes = new ConcurrentHashMap<>();

        log("New client connected from 127.0.0.1 as %s (%s)", client,
                connection.getConnectionInformation().getMqttVersion());
        c.addPublishOutboundInterceptor((in, out) -> logPublish(client, in.getPublishPacket()));
        c.addPubackInboundInterceptor((in, out) -> log("Received PUBACK from %s (Mid: %d, RC:0)", client,
                in.getPubackPacket().getPacketIdentifier()));
        c.addPubrecInboundInterceptor((in, out) -> log("Received PUBREC from %s (Mid: %d)", client,
                in.getPubrecPacket().getPacketIdentifier()));
        c.addPingReqInboundInterceptor((in, out) -> log("Received PINGREQ from %s", client));
        c.addSubscribeInboundInterceptor((in, out) -> subscribes.put(in.getSubscribePacket().getPacketId(),
                in.getSubscribePacket()));
        // Until now, the broker may not pass on what is published.
        c.addSubackOutboundInterceptor((in, out) -> logSubscriptions(client,
                subscribes.remove(in.getSubackPacket().getPacketIdentifier())));
    }

    private static final class Ends implements ClientLifecycleEventListener {
        @Override
        public void onMqttConnectionStart(ConnectionStartInput input) {
        }

        @Override
        public void onAuthenticationSuccessful(AuthenticationSuccessfulInput input) {
        }

        @Override
        public void onDisconnect(DisconnectEventInput input) {
            log("Client %s disconnected%s.", input.getClientInformation().getClientId(),
                    input.getReasonString().map(why -> ": " + why).orElse(""));
        }
    }

    private static final class Logger implements ExtensionMain {
        @Override
        public void extensionStart(ExtensionStartInput input, ExtensionStartOutput output) {
            Services.initializerRegistry().setClientInitializer(Broker::watch);
            Services.eventRegistry().setClientLifecycleEventListener(client -> new Ends());
        }

        @Override
        public void extensionStop(ExtensionStopInput input, ExtensionStopOutput output) {
        }
    }

    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        EmbeddedExtension logger = EmbeddedExtension.builder().withId("logger").withName("logger").withVersion("1")
                .withPriority(0).withStartPriority(1000).withAuthor("tarry").withExtensionMain(new Logger()).build();
        EmbeddedHiveMQ hivemq = EmbeddedHiveMQ.builder().withConfigurationFolder(folder)
                .withDataFolder(Files.createDirectories(folder.resolve("data")))
                .withExtensionsFolder(Files.createDirectories(folder.resolve("extensions")))
                .withEmbeddedExtension(logger).build();

        // Fewer files than for thousands of clients, so that it starts sooner.
        InternalConfigurations.PERSISTENCE_BUCKET_COUNT.set(4);
        InternalConfigurations.PAYLOAD_PERSISTENCE_BUCKET_COUNT.set(4);
        InternalConfigurations.JMX_REPORTER_ENABLED.set(false);
        // Keep the payloads of acknowledged messages. Otherwise, after kill -9, a queue may contain a message without
        // its payload, and HiveMQ 2025.5 no longer reads that queue: "Current transaction should be exclusive".
        InternalConfigurations.PAYLOAD_PERSISTENCE_CLEANUP_SCHEDULE_MSEC.set(24 * 60 * 60 * 1000);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> hivemq.stop().join()));
        hivemq.start().join();
    }
}
