# SPDX-License-Identifier: BSD-2-Clause
"""A Kafka consumer whose every call has a time limit.

Some calls of librdkafka 2.0 block without one, in C, where no signal ends them.
"""
import threading

import confluent_kafka
from confluent_kafka import TopicPartition

from lib import verify

CLOSE_S = 30


class Consumer(confluent_kafka.Consumer):
    def close(self):
        """close() waits for the broker, and may wait forever once a topic was deleted."""
        closing = threading.Thread(target=super().close, daemon=True)
        closing.start()
        closing.join(CLOSE_S)
        if closing.is_alive():
            verify.note(f"a Kafka consumer of the test did not close within {CLOSE_S} s")

    def bounds(self, topic, partitions, timeout_s=30):
        """The (first, end) offsets of each of the partitions. Not by get_watermark_offsets(), which
        ignores its timeout before librdkafka 2.3 if the leader of the partition does not answer."""
        def at(time):
            found = self.offsets_for_times([TopicPartition(topic, p, time) for p in partitions], timeout=timeout_s)
            return [part.offset for part in found]
        return list(zip(at(confluent_kafka.OFFSET_BEGINNING), at(confluent_kafka.OFFSET_END)))
