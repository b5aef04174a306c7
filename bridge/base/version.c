/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * version.c - the versions of the libraries at run time: for bug reports, and to check
 * whether a library is patched.
 *
 * Only this file includes the headers of all libraries. It calls only their version
 * functions.
 */
#include "bridge/base/version.h"

#include <MQTTClient.h>
#include <curl/curl.h>
#include <glib.h>
#include <hiredis/hiredis.h>
#include <jansson.h>
#include <librdkafka/rdkafka.h>
#include <microhttpd.h>
#include <msgpack.h>
#include <openssl/crypto.h>
#include <string.h>
#include <uv.h>

/* The name since librabbitmq 0.12, which warns of the old one. */
#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#else
#include <amqp.h>
#endif

/* Libraries that report their version only as numbers or inside a larger struct. */
static const char *curl(void)
{
    return curl_version_info(CURLVERSION_NOW)->version;
}

static const char *glib(void)
{
    static char text[32];
    snprintf(text, sizeof(text), "%u.%u.%u", glib_major_version, glib_minor_version,
             glib_micro_version);
    return text;
}

static const char *hiredis(void)
{
    static char text[32]; /* the library itself does not report its version */
    snprintf(text, sizeof(text), "%d.%d.%d (at compile time)", HIREDIS_MAJOR,
             HIREDIS_MINOR, HIREDIS_PATCH);
    return text;
}

static const char *openssl(void)
{
    return OpenSSL_version(OPENSSL_VERSION_STRING);
}

static const char *paho(void)
{
    for (const MQTTClient_nameValue *v = MQTTClient_getVersionInfo(); v->name; v++)
        if (strcmp(v->name, "Version") == 0)
            return v->value;
    return "?";
}

void version_print(FILE *out)
{
    static const struct {
        const char *name;
        const char *(*version)(void);
    } libraries[] = {
        {"glib", glib},
        {"hiredis", hiredis},
        {"jansson", jansson_version_str},
        {"libcurl", curl},
        {"libmicrohttpd", MHD_get_version},
        {"librabbitmq", amqp_version},
        {"librdkafka", rd_kafka_version_str},
        {"libuv", uv_version_string},
        {"msgpack-c", msgpack_version},
        {"openssl", openssl},
        {"paho-mqtt", paho},
    };
    fprintf(out, "tarry %s\n", TARRY_VERSION);
    for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
        fprintf(out, "  %-14s %s\n", libraries[i].name, libraries[i].version());
}
