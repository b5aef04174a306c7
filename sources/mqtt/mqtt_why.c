/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_why.h"

#include "bridge/base/text.h"

#include <stdio.h>
#include <string.h>

/* CONNACK codes of MQTT 3.1.1; MQTT 5 uses reason codes instead. */
static const char *const refusals[] = {"accepted",
                                       "the broker does not support this version of MQTT",
                                       "the broker rejects the client_id",
                                       "the broker is not available",
                                       "bad user name or password",
                                       "not authorized"};

/* OpenSSL's lines look like 139:error:0A000086:SSL routines:func:certificate verify
 * failed:file.c:1889: - the reason is the sixth field. */
void mqtt_why_tls(char *out, size_t size, const char *line, size_t len)
{
    struct slice rest = {line, len}, field = text_cut(&rest, ':');

    for (int skipped = 0; skipped < 5 && rest.p; skipped++)
        field = text_cut(&rest, ':');
    snprintf(out, size, "TLS: %.*s", SLICE_ARG(field));
}

/* Returns advice for an error text that contains a given word. */
static const char *hint_of(const char *text)
{
    static const struct {
        const char *word, *hint;
    } hints[] = {
        {"ertificate verify failed",
         "; check that ca_file contains the CA of the broker's certificate, and that the "
         "certificate has not expired"},
        {"user name or password", "; check the options user and password"},
        {"ot authorized",
         "; check the options user and password, and the permissions of this user"}};

    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        if (strstr(text, hints[i].word))
            return hints[i].hint;
    return "";
}

void mqtt_why(char *out, size_t size, const struct mqtt_failure *f)
{
    enum MQTTReasonCodes reason = f->reason;
    const char *text = NULL;

    /* CONNACK of MQTT 5: paho 1.3.12 passes the reason in code, later versions in
     * reason. */
    if (f->code >= MQTTREASONCODE_UNSPECIFIED_ERROR)
        reason = (enum MQTTReasonCodes)f->code;
    if (reason >= MQTTREASONCODE_UNSPECIFIED_ERROR)
        text = MQTTReasonCode_toString(reason);
    else if (f->code > 0 && f->code < (int)(sizeof(refusals) / sizeof(refusals[0])))
        text = refusals[f->code];
    else if (f->tls_why && *f->tls_why)
        text = f->tls_why;
    else if (f->tls)
        text = "no TLS connection; check that the broker runs, that its certificate "
               "contains the host name of the url, and whether it requires a client "
               "certificate";
    else
        text = f->message;
    if (text == NULL)
        text = "no connection; check the host name and the port in the url";
    snprintf(out, size, "%s%s", text, hint_of(text));
}
