/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/amqp/amqp_props.h"

#include "bridge/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    HEAD_BYTES = 7, /* of a frame: type, channel, size */
    FRAME_END = 0xce,
    DEPTH_MAX = 32, /* of nested tables; x-death needs two */
    FLAGS_BYTES = 2,
    FIRST_FLAG = 15 /* the bit of the first property; bit 0: more flags follow */
};

uint64_t amqp_number(const char *at, unsigned n)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < n; i++)
        number = number << 8 | (unsigned char)at[i];
    return number;
}

void amqp_put_number(struct buf *out, uint64_t number, unsigned n)
{
    char *at = buf_room(out, n);

    for (unsigned i = 0; i < n; i++)
        at[i] = (char)(number >> 8 * (n - 1 - i));
    buf_grew(out, n);
}

/* -------------------------------------------------------------------- frames */

int amqp_frame_take(struct slice *in, size_t max_bytes, struct amqp_frame *out,
                    struct err *err)
{
    if (in->n < HEAD_BYTES)
        return 0;
    const size_t size = (size_t)amqp_number(in->p + 3, 4);
    *out = (struct amqp_frame){.type = (unsigned char)in->p[0],
                               .channel = (unsigned)amqp_number(in->p + 1, 2),
                               .payload = {in->p + HEAD_BYTES, size}};
    if (memcmp(in->p, "AMQP", 4) == 0)
        return err_set(err, "the server does not support AMQP 0-9-1; check the port");
    if (out->type == 0 || out->type > AMQP_BEAT)
        return err_set(err, "this is not an AMQP 0-9-1 server");
    if (size > max_bytes - AMQP_FRAME_EXTRA_BYTES)
        return err_set(err, "the broker sent a frame of %zu bytes; the limit is %zu",
                       size, max_bytes - AMQP_FRAME_EXTRA_BYTES);
    if (in->n < size + AMQP_FRAME_EXTRA_BYTES)
        return 0;
    if ((unsigned char)out->payload.p[size] != FRAME_END)
        return err_set(err, "the broker sent a frame without an end");
    const size_t taken = size + AMQP_FRAME_EXTRA_BYTES;
    *in = (struct slice){in->p + taken, in->n - taken};
    return 1;
}

void amqp_frame_put(struct buf *out, enum amqp_frame_type type, unsigned channel,
                    struct slice payload)
{
    amqp_put_number(out, type, 1);
    amqp_put_number(out, channel, 2);
    amqp_put_number(out, payload.n, 4);
    buf_add_slice(out, payload);
    amqp_put_number(out, FRAME_END, 1);
}

/* -------------------------------------------------------------------- values */

/* How a value of a type is encoded: a length of `prefix` bytes and as many bytes, or
 * `bytes` bytes. */
struct type_row {
    char type;
    unsigned char bytes, prefix;
    bool nested;     /* the value consists of further fields or values */
    bool is_integer; /* a signed one, if the letter is that of a signed type */
    bool is_signed;
};
static const struct type_row types[] = {
    {'S', 0, 4, false, false, false}, {'I', 4, 0, false, true, true},
    {'l', 8, 0, false, true, true},   {'t', 1, 0, false, false, false},
    {'T', 8, 0, false, true, false},  {'b', 1, 0, false, true, true},
    {'B', 1, 0, false, true, false},  {'s', 2, 0, false, true, true},
    {'u', 2, 0, false, true, false},  {'i', 4, 0, false, true, false},
    {'L', 8, 0, false, true, false},  {'f', 4, 0, false, false, false},
    {'d', 8, 0, false, false, false}, {'D', 5, 0, false, false, false},
    {'x', 0, 4, false, false, false}, {'V', 0, 0, false, false, false},
    {'F', 0, 4, true, false, false},  {'A', 0, 4, true, false, false}};

static const struct type_row *type_of(char type)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i].type == type)
            return &types[i];
    return NULL;
}

/* Removes n bytes from rest. false: there are fewer. */
static bool take(struct slice *rest, uint64_t n, struct slice *out)
{
    if (rest->n < n)
        return false;
    *out = (struct slice){rest->p, (size_t)n};
    *rest = (struct slice){rest->p + n, rest->n - (size_t)n};
    return true;
}

static bool take_sized(struct slice *rest, unsigned prefix, struct slice *out)
{
    struct slice size;

    return take(rest, prefix, &size) && take(rest, amqp_number(size.p, prefix), out);
}

/* Removes a type and its value, without its length. */
static bool take_value(struct slice *rest, char *type, struct slice *value)
{
    struct slice letter;

    if (!take(rest, 1, &letter))
        return false;
    *type = letter.p[0];
    const struct type_row *row = type_of(*type);
    if (row == NULL)
        return false;
    return row->prefix ? take_sized(rest, row->prefix, value)
                       : take(rest, row->bytes, value);
}

static bool take_field(struct slice *rest, struct amqp_field *out)
{
    const struct slice before = *rest;

    if (!take_sized(rest, 1, &out->name) || !take_value(rest, &out->type, &out->value))
        return false;
    out->raw = (struct slice){before.p, before.n - rest->n};
    return true;
}

/* table: it consists of fields; otherwise of values. */
static bool nested_ok(struct slice rest, bool table, unsigned depth)
{
    while (rest.n > 0) {
        struct amqp_field f;
        if (!(table ? take_field(&rest, &f) : take_value(&rest, &f.type, &f.value)))
            return false;
        if (type_of(f.type)->nested &&
            (depth == 0 || !nested_ok(f.value, f.type == 'F', depth - 1)))
            return false;
    }
    return true;
}

/* -------------------------------------------------------------------- properties */

static const struct prop_row {
    const char *header;
    unsigned char bytes; /* 0: a short string */
} rows[AMQP_PROPS] = {[AMQP_CONTENT_TYPE] = {"content-type", 0},
                      [AMQP_CONTENT_ENCODING] = {"content-encoding", 0},
                      [AMQP_HEADERS] = {NULL, 0},
                      [AMQP_DELIVERY_MODE] = {NULL, 1},
                      [AMQP_PRIORITY] = {"amqp-priority", 1},
                      [AMQP_CORRELATION_ID] = {"amqp-correlation-id", 0},
                      [AMQP_REPLY_TO] = {"amqp-reply-to", 0},
                      [AMQP_EXPIRATION] = {NULL, 0},
                      [AMQP_MESSAGE_ID] = {"amqp-message-id", 0},
                      [AMQP_TIMESTAMP] = {"amqp-timestamp", 8},
                      [AMQP_TYPE] = {"amqp-type", 0},
                      [AMQP_USER_ID] = {"amqp-user-id", 0},
                      [AMQP_APP_ID] = {"amqp-app-id", 0},
                      [AMQP_CLUSTER_ID] = {NULL, 0}};

const char *amqp_prop_header(enum amqp_prop prop)
{
    return rows[prop].header;
}

static bool take_prop(struct slice *rest, enum amqp_prop prop, struct slice *raw)
{
    const struct slice before = *rest;
    struct slice value;

    if (prop == AMQP_HEADERS) {
        if (!take_sized(rest, 4, &value) || !nested_ok(value, true, DEPTH_MAX))
            return false;
    } else if (rows[prop].bytes ? !take(rest, rows[prop].bytes, &value)
                                : !take_sized(rest, 1, &value)) {
        return false;
    }
    *raw = (struct slice){before.p, before.n - rest->n};
    return true;
}

int amqp_props_parse(struct slice bytes, struct amqp_props *out, struct err *err)
{
    struct slice flags;

    *out = (struct amqp_props){{{NULL, 0}}};
    if (!take(&bytes, FLAGS_BYTES, &flags))
        return err_set(err, "the properties of the message are cut off");
    const unsigned bits = (unsigned)amqp_number(flags.p, FLAGS_BYTES);
    if (bits & 3) /* bits that basic.properties of AMQP 0-9-1 does not use */
        return err_set(err, "the message has unknown properties");
    for (unsigned i = 0; i < AMQP_PROPS; i++)
        if (bits >> (FIRST_FLAG - i) & 1 &&
            !take_prop(&bytes, (enum amqp_prop)i, &out->raw[i]))
            return err_set(err,
                           "the property %s of the message is invalid, or a table in it "
                           "is nested more than %d times",
                           rows[i].header ? rows[i].header : "headers", DEPTH_MAX);
    return bytes.n == 0 ? 0 : err_set(err, "bytes follow the properties of the message");
}

void amqp_props_put(const struct amqp_props *props, struct buf *out)
{
    unsigned bits = 0;

    for (unsigned i = 0; i < AMQP_PROPS; i++)
        if (props->raw[i].p)
            bits |= 1U << (FIRST_FLAG - i);
    amqp_put_number(out, bits, FLAGS_BYTES);
    for (unsigned i = 0; i < AMQP_PROPS; i++)
        buf_add_slice(out, props->raw[i]);
}

struct slice amqp_prop_text(const struct amqp_props *props, enum amqp_prop prop,
                            char room[AMQP_TEXT_SIZE])
{
    const struct slice raw = props->raw[prop];

    if (raw.p == NULL || prop == AMQP_HEADERS)
        return (struct slice){NULL, 0};
    if (rows[prop].bytes == 0)
        return (struct slice){raw.p + 1, raw.n - 1};
    const int n =
        snprintf(room, AMQP_TEXT_SIZE, "%" PRIu64, amqp_number(raw.p, rows[prop].bytes));
    return (struct slice){room, (size_t)n};
}

int amqp_prop_put(struct buf *out, enum amqp_prop prop, struct slice text)
{
    const unsigned bytes = rows[prop].bytes;

    must(prop != AMQP_HEADERS);
    if (bytes == 0) {
        if (text.n > AMQP_NAME_MAX)
            return -1;
        amqp_put_number(out, text.n, 1);
        buf_add_slice(out, text);
        return 0;
    }
    const int64_t number = text_whole_number(text);
    if (number < 0 || (bytes == 1 && number > UINT8_MAX))
        return -1;
    amqp_put_number(out, (uint64_t)number, bytes);
    return 0;
}

/* -------------------------------------------------------------------- the headers */

struct slice amqp_props_table(const struct amqp_props *props)
{
    const struct slice raw = props->raw[AMQP_HEADERS];

    return raw.p ? (struct slice){raw.p + 4, raw.n - 4} : SLICE_LIT("");
}

bool amqp_field_take(struct slice *rest, struct amqp_field *out)
{
    return rest->n > 0 && take_field(rest, out);
}

/* Extends the sign of an integer of n bytes. */
static int64_t signed_number(uint64_t bits, size_t n)
{
    must(n > 0 && n <= 8);
    const uint64_t sign = UINT64_C(1) << (8 * n - 1);

    return (int64_t)((bits ^ sign) - sign);
}

static double real_of(const struct amqp_field *f)
{
    const uint64_t bits = amqp_number(f->value.p, (unsigned)f->value.n);
    const uint32_t low = (uint32_t)bits;
    float single;
    double real;

    if (f->type == 'd') {
        memcpy(&real, &bits, sizeof(real));
        return real;
    }
    memcpy(&single, &low, sizeof(single));
    return (double)single;
}

/* The shorter of two precisions from which the value can be restored. */
static int put_real(char room[AMQP_TEXT_SIZE], const struct amqp_field *f)
{
    const double real = real_of(f);
    const int least = f->type == 'd' ? 15 : 6, most = f->type == 'd' ? 17 : 9;
    int n = snprintf(room, AMQP_TEXT_SIZE, "%.*g", least, real);
    const double again = strtod(room, NULL);

    if (f->type == 'd' ? again != real : (float)again != (float)real)
        n = snprintf(room, AMQP_TEXT_SIZE, "%.*g", most, real);
    return n;
}

/* A decimal: the number of digits after the point, and the digits as an integer. */
static int put_decimal(char room[AMQP_TEXT_SIZE], const struct amqp_field *f)
{
    const unsigned scale = (unsigned char)f->value.p[0];
    const int64_t number = signed_number(amqp_number(f->value.p + 1, 4), 4);
    int64_t power = 1;

    if (scale == 0 || scale > 9)
        return snprintf(room, AMQP_TEXT_SIZE, scale ? "%" PRId64 "e-%u" : "%" PRId64,
                        number, scale);
    for (unsigned i = 0; i < scale; i++)
        power *= 10;
    const int64_t size = number < 0 ? -number : number;
    return snprintf(room, AMQP_TEXT_SIZE, "%s%" PRId64 ".%0*" PRId64,
                    number < 0 ? "-" : "", size / power, (int)scale, size % power);
}

static int put_integer(char room[AMQP_TEXT_SIZE], const struct amqp_field *f,
                       const struct type_row *row)
{
    const uint64_t bits = amqp_number(f->value.p, row->bytes);

    return row->is_signed ? snprintf(room, AMQP_TEXT_SIZE, "%" PRId64,
                                     signed_number(bits, row->bytes))
                          : snprintf(room, AMQP_TEXT_SIZE, "%" PRIu64, bits);
}

bool amqp_field_text(const struct amqp_field *f, char room[AMQP_TEXT_SIZE],
                     struct slice *text)
{
    const struct type_row *row = type_of(f->type);
    int n = 0;

    if (row == NULL || row->nested)
        return false;
    if (row->is_integer) {
        n = put_integer(room, f, row);
    } else if (f->type == 't') {
        *text = f->value.p[0] ? SLICE_LIT("true") : SLICE_LIT("false");
        return true;
    } else if (f->type == 'f' || f->type == 'd') {
        n = put_real(room, f);
    } else if (f->type == 'D') {
        n = put_decimal(room, f);
    } else {
        *text = f->type == 'V' ? (struct slice){NULL, 0} : f->value;
        return true;
    }
    *text = (struct slice){room, (size_t)n};
    return true;
}

bool amqp_field_number(const struct amqp_field *f, int64_t *n)
{
    const struct type_row *row = type_of(f->type);

    if (row == NULL)
        return false;
    if (row->is_integer) {
        const uint64_t bits = amqp_number(f->value.p, row->bytes);
        *n = row->is_signed ? signed_number(bits, row->bytes)
                            : (int64_t)(bits < INT64_MAX ? bits : INT64_MAX);
        return true;
    }
    if (f->type == 'f' || f->type == 'd') {
        const double real = real_of(f);
        const bool fits = fabs(real) < 9e15;
        *n = fits ? (int64_t)real : 0;
        return fits;
    }
    if (f->type != 'S')
        return false;
    const bool negative = f->value.n > 0 && f->value.p[0] == '-';
    *n = text_whole_number((struct slice){f->value.p + negative, f->value.n - negative});
    if (*n < 0)
        return false;
    *n = negative ? -*n : *n;
    return true;
}

static void put_name(struct buf *out, struct slice name, char type)
{
    must(name.n <= AMQP_NAME_MAX);
    amqp_put_number(out, name.n, 1);
    buf_add_slice(out, name);
    buf_add(out, &type, 1);
}

void amqp_field_put(struct buf *out, struct slice name, struct slice value)
{
    put_name(out, name, value.p ? 'S' : 'V');
    if (value.p == NULL)
        return;
    amqp_put_number(out, value.n, 4);
    buf_add_slice(out, value);
}

void amqp_field_put_number(struct buf *out, struct slice name, int64_t n)
{
    const bool small = n >= INT32_MIN && n <= INT32_MAX;

    put_name(out, name, small ? 'I' : 'l');
    amqp_put_number(out, (uint64_t)n, small ? 4 : 8);
}
