# SPDX-License-Identifier: BSD-2-Clause
"""Clients of an MQTT broker, with paho-mqtt 1.6 (Debian 12) and 2 (Debian 13)."""
import paho.mqtt.client as paho


def new_client(client_id="", protocol=paho.MQTTv5):
    """Returns a client that is not connected. Callbacks must accept more arguments: paho-mqtt 2 passes
    additional arguments to some of them. If client_id is empty, the broker or the library chooses it."""
    if not hasattr(paho, "CallbackAPIVersion"):
        return paho.Client(client_id, protocol=protocol)
    return paho.Client(paho.CallbackAPIVersion.VERSION2, client_id, protocol=protocol)
