// SPDX-License-Identifier: BSD-2-Clause
// Publishes a delayed message over MQTT 5: node mqtt.mjs URL TOPIC ID DELAY TEXT. Requires: npm install mqtt
import mqtt from "mqtt";

const [url, topic, id, delay, text] = process.argv.slice(2);
const client = await mqtt.connectAsync(url, { protocolVersion: 5 });
const properties = { userProperties: { "delay-id": id, "deliver-after": delay } };
await client.publishAsync(topic, text, { qos: 1, properties });
await client.endAsync();
