// SPDX-License-Identifier: BSD-2-Clause
// Sends a delayed record to Kafka: node kafka.mjs BROKERS TOPIC ID DELAY TEXT. Requires: npm install kafkajs
import { Kafka, logLevel } from "kafkajs";

const [brokers, topic, id, delay, text] = process.argv.slice(2);
const producer = new Kafka({ brokers: brokers.split(","), logLevel: logLevel.ERROR }).producer();
await producer.connect();
await producer.send({ topic, messages: [{ value: text, headers: { "delay-id": id, "deliver-after": delay } }] });
await producer.disconnect();
