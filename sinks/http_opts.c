/* SPDX-License-Identifier: BSD-2-Clause */
#include "sinks/http_opts.h"
#include "bridge/text.h"
#include "sinks/http_message.h"
#include "sinks/http_url.h"

#define AT(field) offsetof(struct http_opts, field)
const struct opt http_opt_rows[] = {
    {"url", OPT_STR, AT(url), NULL, "Where to send jobs whose route gives no target.",
     .optional = true},
    {"method", OPT_CHOICE, AT(method), "POST", "Method of the request.",
     .choices = "POST|PUT"},
    {"timeout", OPT_MS, AT(timeout_ms), "10s",
     "From the start of a delivery to the end of the answer, redirects included.",
     .min = 10, .max = 3600000},
    {"connect_timeout", OPT_MS, AT(connect_timeout_ms), "3s",
     "For finding the address, connecting and TLS.", .min = 10, .max = 600000},
    {"accept", OPT_CHOICE, AT(accept), "status",
     "What a delivery is: \"status\", any 2xx; or \"code100\", a body that is a JSON "
     "object whose \"code\" is 100, whatever the status, and all else is tried again.",
     .choices = "status|code100"},
    {"response_max", OPT_BYTES, AT(response_max_bytes), "64KiB",
     "Bytes of an answer's body that are read. By status, a longer one counts all the "
     "same; with code100 it is a failure.",
     .max = 1 << 30},
    {"redirects", OPT_INT, AT(redirects), "0",
     "How many redirects of one delivery are followed. The sink's own headers go only to "
     "the scheme, host and port of the first URL.",
     .max = 50},
    {"userinfo", OPT_BOOL, AT(userinfo), "false",
     "Whether a job's URL may be http://user:password@host/, which is sent as Basic "
     "authorization; else such a job is rejected.",
     .min = 0},
    {"host_connections", OPT_INT, AT(host_connections), "64",
     "Connections to one host; deliveries beyond them wait, and their timeout runs.",
     .min = 1, .max = 10000},
    {"headers", OPT_PAIRS, AT(headers), "",
     "Headers of every request, such as Authorization; they win over a job's own.",
     .min = 0},
    {"user_agent", OPT_STR, AT(user_agent), "tarry",
     "The User-Agent of jobs that bring none.", .min = 0},
    {"delay_headers", OPT_BOOL, AT(delay_headers), "true",
     "Whether delay-id, delay-attempt and the like, and webhook-id, go along.", .min = 0},
    {"ca_file", OPT_STR, AT(ca_file), NULL,
     "PEM file of the authorities to trust instead of the system's.", .optional = true},
    {"cert_file", OPT_STR, AT(cert_file), NULL, "PEM file of the client certificate.",
     .optional = true},
    {"key_file", OPT_STR, AT(key_file), NULL, "PEM file of its key.", .optional = true},
    {"proxy", OPT_STR, AT(proxy), NULL,
     "URL of a proxy; the environment's is never used.", .optional = true},
    {"verify", OPT_BOOL, AT(verify), "true",
     "Whether the receiver's certificate must be valid and its own.", .min = 0},
    {0}};

static int check_headers(const struct opt_pairs *headers, struct err *err)
{
    for (size_t i = 0; i < headers->n; i++) {
        struct slice name = slice_of(headers->v[i].name);
        if (!text_is_token(name) || http_is_transport_header(name) ||
            !text_is_header_value(slice_of(headers->v[i].value)))
            return err_set(
                err,
                "headers: \"%s\" cannot be set: no header name, the transport's "
                "own, or a line break in its value",
                name.p);
    }
    return 0;
}

int http_opts_check(const void *self, struct err *err)
{
    const struct http_opts *o = self;
    if (o->url && !http_is_url(slice_of(o->url)))
        return err_set(
            err, "url must begin with http:// or https:// and be shorter than %d bytes",
            HTTP_URL_MAX);
    if (o->proxy && strstr(o->proxy, "://") == NULL)
        return err_set(err, "proxy must be a URL such as http://proxy.example:3128");
    if ((o->cert_file == NULL) != (o->key_file == NULL))
        return err_set(err, "cert_file and key_file must be given together");
    if (!text_is_header_value(slice_of(o->user_agent)))
        return err_set(err, "user_agent must be one line");
    return check_headers(&o->headers, err);
}
