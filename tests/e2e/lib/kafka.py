# SPDX-License-Identifier: BSD-2-Clause
"""A Kafka consumer with a time limit for every call.

Some calls of librdkafka 2.0 block without a limit, in C, where no signal can end them.
"""
import threading

import confluent_kafka
from confluent_kafka import TopicPartition

from lib import verify

CLOSE_S = 30


class Consumer(confluent_kafka.Consumer):
    def close(self):
        """Closes the consumer. close() waits for the broker, and can wait forever after a topic was deleted."""
        closing = threading.Thread(target=super().close, daemon=True)
        closing.start()
        closing.join(CLOSE_S)
        if closing.is_alive():
            verify.note(f"a Kafka consumer of the test did not close within {CLOSE_S} s")

    def bounds(self, topic, partitions, timeout_s=30):
        """Returns the (first, end) offsets of each of the partitions. Does not use
        get_watermark_offsets(): before librdkafka 2.3, it ignores its timeout if the leader of the
        partition does not answer."""
        def at(time):
            found = self.offsets_for_times([TopicPartition(topic, p, time) for p in partitions], timeout=timeout_s)
            return [part.offset for part in found]
        return list(zip(at(confluent_kafka.OFFSET_BEGINNING), at(confluent_kafka.OFFSET_END)))
