// SPDX-License-Identifier: BSD-2-Clause
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.UUID;
import org.eclipse.paho.mqttv5.client.MqttClient;
import org.eclipse.paho.mqttv5.client.persist.MemoryPersistence;
import org.eclipse.paho.mqttv5.common.MqttMessage;
import org.eclipse.paho.mqttv5.common.packet.MqttProperties;
import org.eclipse.paho.mqttv5.common.packet.UserProperty;

/** Publishes a delayed message over MQTT 5: {@code java -cp 'libs/*' MqttSend.java URL TOPIC ID DELAY TEXT} */
public class MqttSend {
    public static void main(String[] arg) throws Exception {
        MqttClient client = new MqttClient(arg[0], UUID.randomUUID().toString(), new MemoryPersistence());
        client.connect();
        MqttProperties properties = new MqttProperties();
        properties.setUserProperties(
            List.of(new UserProperty("delay-id", arg[2]), new UserProperty("deliver-after", arg[3])));
        client.publish(arg[1], new MqttMessage(arg[4].getBytes(StandardCharsets.UTF_8), 1, false, properties));
        client.disconnect();
        client.close();
    }
}
