/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cloudevent.h - converts CloudEvents 1.0 in binary mode between protocols.
 *
 * The attributes of an event are headers: ce_id on Kafka, ce-id on HTTP
 * (percent-encoded), the user property id on MQTT 5 (https://github.com/cloudevents/spec,
 * the protocol bindings). Inside tarry they have Kafka's names. A message is an event if
 * it has the four required attributes id, source, type and specversion. Pure. Any thread.
 *
 * The attribute datacontenttype is the header content-type in all bindings. traceparent,
 * tracestate and the control headers are no attributes, on MQTT either. A source's
 * renamed control header must contain a "-"; otherwise it would be an attribute.
 */
#ifndef BRIDGE_CLOUDEVENT_H
#define BRIDGE_CLOUDEVENT_H

#include "bridge/base/buf.h"
#include "bridge/job/job.h"

#include <stdbool.h>

enum ce_binding { CE_KAFKA, CE_HTTP, CE_MQTT };

/* For sources: renames the attributes of an event to Kafka's names and decodes their
 * values. Leaves the job unchanged if it is no event, if the binding forbids a value, or
 * if the headers would exceed the limits of a job. Does nothing for CE_KAFKA. */
void cloudevent_in(struct job *job, enum ce_binding from);
/* Returns whether the job has the required attributes, by their names inside tarry. */
bool cloudevent_is(const struct job *job);
/* For sinks, if cloudevent_is(): appends name and value of attribute h in the binding
 * `to`. Neither grows, except on HTTP. Returns false if h is no attribute: nothing is
 * appended, send h unchanged. Always false for CE_KAFKA. */
bool cloudevent_out(const struct header *h, enum ce_binding to, struct buf *out_name,
                    struct buf *out_value);
/* Returns the attribute expirytime in ms since 1970; 0: absent, or not RFC 3339. */
int64_t cloudevent_expires_ms(const struct job *job);

#endif
