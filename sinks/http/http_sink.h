/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_sink.h - shared by the files of the http sink: http.c starts and stops it,
 * http_call.c makes a delivery. The others are pure: http_opts.c checks the options,
 * http_url.c callback URLs, http_message.c writes headers and reads answers, http_sign.c
 * signs.
 */
#ifndef SINKS_HTTP_HTTP_SINK_H
#define SINKS_HTTP_HTTP_SINK_H

#include "bridge/base/curl_loop.h"
#include "bridge/plugin.h"

#include <curl/curl.h>
#include <sys/socket.h>

/* -------------------------------------------------------------------- http_opts.c */

enum http_verdict { HTTP_RETRY, HTTP_DELIVERED, HTTP_REJECT, HTTP_STOP };
enum { HTTP_VERDICTS = HTTP_STOP + 1 };

struct http_range {
    unsigned first, last;
};
/* Parses "443" or "1024-65535"; no number may exceed most. -1: invalid. */
int http_range_read(struct http_range *range, const char *text, unsigned most);

enum { HTTP_STATUS_MAX = 999 };
struct http_rules {
    unsigned char verdict[HTTP_STATUS_MAX + 1];
};
/* Parses the lists, one for each verdict, of codes, ranges and classes such as "2xx". If
 * two lists contain a status, the narrower range wins. -1: equally narrow ranges, or an
 * invalid entry. */
int http_rules_read(struct http_rules *rules, const struct opt_list lists[HTTP_VERDICTS],
                    struct err *err);
/* Returns the verdict for a status; HTTP_RETRY if no list contains it. */
enum http_verdict http_rules_verdict(const struct http_rules *rules, long status);

enum http_method { HTTP_POST, HTTP_PUT };

/* How to judge an answer. */
enum http_accept {
    HTTP_BY_STATUS, /* by the status, see codes */
    HTTP_BY_CODE100 /* by the body: a JSON object whose code is 100 */
};

struct http_opts {
    char *url;
    int method; /* enum http_method */
    int accept; /* enum http_accept */
    int64_t timeout_ms, connect_timeout_ms, response_max_bytes, host_connections;
    struct opt_list codes[HTTP_VERDICTS];
    int64_t retry_after_max_ms;
    int64_t redirects; /* maximum; 0: follow none */
    struct pairs headers;
    char *user_agent;
    char *ca_file, *cert_file, *key_file, *proxy;
    bool verify;
    bool userinfo;                /* a job's URL may contain a user name */
    bool delay_headers;           /* send delay-* and webhook-id */
    struct opt_list signing_keys; /* secrets, the primary first */
    bool url_from_message;
    struct opt_list allow_hosts, allow, deny, ports;
    bool proxy_guards; /* the proxy checks addresses instead of tarry */
};

extern const struct opt http_opt_rows[];
int http_opts_check(const void *self, struct err *err); /* for sink_ops */
/* Parses the options that need another form at run time. On failure nothing stays
 * allocated. */
struct http_sink;
int http_opts_parse(struct http_sink *s, struct err *err);
void http_opts_release(struct http_sink *s);

/* -------------------------------------------------------------------- http_message.c */

/* "name: value" lines in curl's format. All zeros: empty. Reusable. */
struct http_lines {
    struct buf text;    /* each line ended by a NUL */
    struct buf offsets; /* size_t: where each begins */
    bool has_type;      /* one is Content-Type */
};

struct http_signer;

/* Properties of a single request of a delivery (the first, or after a redirect). */
struct http_hop {
    bool without_body; /* a redirect changed it to a GET without payload */
    bool other_origin; /* not the origin of the first URL: send no credentials */
    /* A message named the host and allow_hosts does not contain it: send no configured
     * headers, no signature and no certificate. */
    bool unlisted_host;
    struct slice referer;             /* empty: none */
    const struct http_signer *signer; /* NULL: do not sign */
    int64_t now_s;                    /* since 1970, for the signature */
};
/* Builds the header lines. Configured headers override those of the job. Returns how many
 * headers of the job were dropped because they are invalid in HTTP. */
unsigned http_lines_make(struct http_lines *lines, const struct delivery *d,
                         const struct http_opts *o, const struct http_hop *hop);
size_t http_lines_count(const struct http_lines *lines);
char *http_lines_at(const struct http_lines *lines, size_t i); /* valid until the next
                                                                * http_lines_make() */
void http_lines_free(struct http_lines *lines);

/* Is it a header that only the transport sets, such as Content-Length? */
bool http_is_transport_header(struct slice name);
/* webhook-id, webhook-timestamp, webhook-signature */
bool http_is_webhook_header(struct slice name);
/* Is it a JSON object whose "code" is the integer 100? Keys are case-insensitive; the
 * last one counts. */
bool http_is_code100(struct slice body);

/* Returns the reason if the URL itself is invalid, so that no retry can succeed; else
 * NULL. */
const char *http_permanent_error(CURLcode code);

enum http_redirect { HTTP_NO_REDIRECT, HTTP_AS_GET, HTTP_AS_IT_IS };
/* Returns how to follow a redirect with this status. */
enum http_redirect http_status_redirect(long status);

/* -------------------------------------------------------------------- http_sign.c
 *
 * Signatures of Standard Webhooks
 * (https://github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md).
 * The signed text is ID.SECONDS.BODY. Use a signer in one thread only. */

/* keys: "whsec_" and 24 to 64 bytes in base64 for HMAC-SHA256 (v1); "whsk_" and an
 * ed25519 private key in base64, 32 bytes, or 64 with the public key, for ed25519 (v1a).
 * NULL: a key is invalid; err identifies it without showing it. */
struct http_signer *http_signer_new(const struct opt_list *keys, struct err *err);
void http_signer_free(struct http_signer *signer); /* signer may be NULL */

/* Appends the value of webhook-signature, one signature per key in the order of the keys.
 * id: value of webhook-id, without a dot. now_s: since 1970. */
void http_signer_add(const struct http_signer *signer, struct slice id, int64_t now_s,
                     struct slice body, struct buf *out);

/* -------------------------------------------------------------------- http_url.c */

enum { HTTP_URL_MAX = 8192 };

/* Does it begin with http:// or https://, with at most HTTP_URL_MAX bytes? */
bool http_is_url(struct slice url);
/* Checks the port of a URL. */
int http_url_check_port(struct slice url, struct err *err);
/* Same scheme, host and port? Only then may both receive the same secrets. */
bool http_url_same_origin(struct slice a, struct slice b);

/* Returns the part of url up to the path, "https://host:8443", without the scheme's
 * default port. If url contains a user name, which may be a secret, returns only the part
 * after it. Returns url itself if it is not a URL. */
struct slice http_url_origin(struct slice url);

/* Appends the URL for curl: percent-encodes characters invalid in a request line and
 * removes the fragment. -1: contains a control character or no valid host; appends
 * nothing. */
int http_url_add(struct buf *out, struct slice url);
/* Appends a Referer value. From https to http it is empty. To another origin it has no
 * path, since the path of a callback is often its secret. It never contains user name or
 * fragment. */
void http_url_add_referer(struct buf *out, struct slice from, struct slice to);

/* -------------------------------------------------------------------- the guard
 *
 * A host name proves nothing, since DNS answers change. So the guard checks the address
 * that curl is about to connect to. An IPv6 address with an embedded IPv4 address must
 * pass for both. */

/* Where the URL comes from. */
enum http_url_source {
    HTTP_URL_CONFIG, /* the sink's configuration: only deny applies */
    /* the route, or a redirect from a private network: deny, allow_hosts and ports apply
     */
    HTTP_URL_ROUTE,
    HTTP_URL_REDIRECT, /* any other redirect: no private networks, no low ports */
    HTTP_URL_MESSAGE   /* a message: as HTTP_URL_REDIRECT, if url_from_message */
};

struct http_guard;

/* Borrows o until the guard is freed. */
struct http_guard *http_guard_new(const struct http_opts *o, struct err *err);
void http_guard_free(struct http_guard *guard); /* guard may be NULL */

/* Returns the reason to reject the URL; NULL: its text is allowed. */
const char *http_guard_url(const struct http_guard *guard, enum http_url_source from,
                           const char *url);
/* Is the URL's host one of allow_hosts? */
bool http_guard_lists_host(const struct http_guard *guard, const char *url);
bool http_guard_address(const struct http_guard *guard, enum http_url_source from,
                        const struct sockaddr *address);
/* Like http_guard_address() for "192.0.2.1" or "2001:db8::1". */
bool http_guard_ip(const struct http_guard *guard, enum http_url_source from,
                   const char *ip);

/* ---------------------------------------------------------- http_call.c, http.c */

struct http_call;

struct http_sink {
    struct http_opts o; /* must be first: http_opt_rows use its offsets */
    struct sink *sink;
    struct http_rules rules;
    struct http_guard *guard;
    struct http_signer *signer; /* NULL: do not sign */
    struct curl_loop *curl;
    struct http_call *idle; /* free list of calls with their easy handles */
    int64_t answers_bytes;  /* memory of all unfinished answers */
    struct log_limit bad_header;
};

void http_call_begin(struct http_sink *s, struct delivery *d);
/* For curl_loop_new(); transfer: a struct http_call. */
void http_call_end(void *transfer, CURLcode code);
bool http_call_is_connected(const void *transfer);
void http_calls_free(struct http_sink *s);

/* Makes a handle with the proxy and TLS options. why: CURL_ERROR_SIZE bytes that must
 * outlive the handle. */
CURL *http_easy_new(const struct http_opts *o, char *why);

#endif
