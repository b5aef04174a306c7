// SPDX-License-Identifier: BSD-2-Clause
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends a delayed record to Kafka: {@code java -cp 'libs/*' KafkaSend.java BROKERS TOPIC ID DELAY TEXT} */
public class KafkaSend {
    public static void main(String[] arg) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arg[0], "key.serializer", StringSerializer.class,
                                              "value.serializer", StringSerializer.class);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            ProducerRecord<String, String> record = new ProducerRecord<>(arg[1], arg[4]);
            record.headers().add("delay-id", arg[2].getBytes(StandardCharsets.UTF_8));
            record.headers().add("deliver-after", arg[3].getBytes(StandardCharsets.UTF_8));
            producer.send(record).get();
        }
    }
}
