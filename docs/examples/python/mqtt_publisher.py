# SPDX-License-Identifier: BSD-2-Clause
"""Publishes a delayed message over MQTT 5. Requires: pip install -r requirements.txt

    mqtt_publisher.py HOST PORT TOPIC ID DELAY TEXT
"""
import sys

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

host, port, topic, job_id, delay, text = sys.argv[1:]
properties = Properties(PacketTypes.PUBLISH)
properties.UserProperty = [("delay-id", job_id), ("deliver-after", delay)]
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
client.connect(host, int(port))
client.loop_start()
client.publish(topic, text, qos=1, properties=properties).wait_for_publish(30)
client.disconnect()
client.loop_stop()
