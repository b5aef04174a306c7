/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cloudevent.h - CloudEvents 1.0 in binary mode, carried from one protocol to another.
 *
 * An event's attributes are headers: ce_id on Kafka, ce-id on HTTP (percent-encoded), id
 * as a user property on MQTT 5 (https://github.com/cloudevents/spec, the three protocol
 * bindings). Within tarry they have Kafka's names. A message counts as an event when the
 * four required attributes are there: id, source, type, specversion. Pure. Any thread.
 *
 * The attribute datacontenttype is the header content-type everywhere. traceparent,
 * tracestate and the control headers are headers of their own, on MQTT too. What a source
 * renames control headers to must hold a "-" there: it would be an attribute otherwise.
 */
#ifndef BRIDGE_CLOUDEVENT_H
#define BRIDGE_CLOUDEVENT_H

#include "bridge/base/buf.h"
#include "bridge/job/job.h"

#include <stdbool.h>

enum ce_binding { CE_KAFKA, CE_HTTP, CE_MQTT };

/* For sources: gives an event's attributes Kafka's names, and the values as they are
 * meant. What is no event stays as it is; so does one with a value that the binding
 * forbids, or whose headers would become more than a job may have. With CE_KAFKA there is
 * nothing to do. */
void cloudevent_in(struct job *job, enum ce_binding from);
/* Is it an event, by the names used within? */
bool cloudevent_is(const struct job *job);
/* For sinks, where cloudevent_is(): is this header an attribute, and what is it called
 * there? Its name is appended to out_name, its value to out_value, both no longer than
 * they were but on HTTP. false: nothing is appended, send it as it is; always with
 * CE_KAFKA. */
bool cloudevent_out(const struct header *h, enum ce_binding to, struct buf *out_name,
                    struct buf *out_value);
/* The attribute expirytime of an event in ms since 1970; 0: there is none, or it is no
 * date as RFC 3339 has it. */
int64_t cloudevent_expires_ms(const struct job *job);

#endif
