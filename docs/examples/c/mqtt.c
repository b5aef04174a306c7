/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt.c - a device publishes a delayed message over MQTT 5.
 *
 *   apt-get install libpaho-mqtt-dev
 *   cc -o mqtt mqtt.c -lpaho-mqtt3c
 *   ./mqtt URL TOPIC ID DELAY TEXT
 */
#include <MQTTClient.h>
#include <stdio.h>
#include <string.h>

enum { TIMEOUT_MS = 10000 };

static void add(MQTTProperties *properties, char *name, char *value)
{
    MQTTProperty property = {.identifier = MQTTPROPERTY_CODE_USER_PROPERTY};
    property.value.data = (MQTTLenString){(int)strlen(name), name};
    property.value.value = (MQTTLenString){(int)strlen(value), value};
    MQTTProperties_add(properties, &property);
}

static int publish(MQTTClient client, char **arg)
{
    MQTTClient_message message = MQTTClient_message_initializer;
    MQTTClient_deliveryToken token;
    add(&message.properties, "delay-id", arg[3]);
    add(&message.properties, "deliver-after", arg[4]);
    message.payload = arg[5];
    message.payloadlen = (int)strlen(arg[5]);
    message.qos = 1;
    MQTTResponse response = MQTTClient_publishMessage5(client, arg[2], &message, &token);
    int rc = response.reasonCode == MQTTCLIENT_SUCCESS
                 ? MQTTClient_waitForCompletion(client, token, TIMEOUT_MS)
                 : (int)response.reasonCode;
    MQTTResponse_free(response);
    MQTTProperties_free(&message.properties);
    return rc;
}

int main(int argc, char **arg)
{
    MQTTClient_createOptions create = MQTTClient_createOptions_initializer;
    MQTTClient_connectOptions options = MQTTClient_connectOptions_initializer5;
    MQTTClient client;
    create.MQTTVersion = MQTTVERSION_5;
    if (argc != 6 || MQTTClient_createWithOptions(&client, arg[1], "",
                                                  MQTTCLIENT_PERSISTENCE_NONE, NULL,
                                                  &create) != MQTTCLIENT_SUCCESS)
        return 2;
    MQTTResponse response = MQTTClient_connect5(client, &options, NULL, NULL);
    int rc = (int)response.reasonCode;
    MQTTResponse_free(response);
    if (rc == 0)
        rc = publish(client, arg);
    if (rc != 0)
        fprintf(stderr, "%s\n", MQTTClient_strerror(rc));
    MQTTClient_disconnect5(client, TIMEOUT_MS, MQTTREASONCODE_SUCCESS, NULL);
    MQTTClient_destroy(&client);
    return rc != 0;
}
