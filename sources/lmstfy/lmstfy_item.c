/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/lmstfy/lmstfy_item.h"
#include "bridge/base/text.h"
#include "sources/lmstfy/lmstfy_attr.h"
#include "sources/lmstfy/lmstfy_id.h"

int64_t lmstfy_elapsed_ms(const struct queue_job *found)
{
    int64_t since_ms = lmstfy_id_ms(found->id);
    if (since_ms < 0 && found->job->timestamp_ms > 0)
        since_ms = found->job->timestamp_ms;
    if (since_ms < 0)
        return -1;
    return found->now_ms > since_ms ? found->now_ms - since_ms : 0;
}

/* Rounded to the nearest, as Redis' TTL does it; 0: it does not expire. The dead don't.
 */
static int64_t seconds_left(const struct queue_job *found)
{
    if (found->expires_ms == 0 || found->state == QUEUE_DEAD ||
        found->expires_ms <= found->now_ms)
        return 0;
    return (found->expires_ms - found->now_ms + 500) / 1000;
}

void lmstfy_add_queue(struct buf *out, struct slice ns, struct slice queue)
{
    buf_add_str(out, "\"namespace\":\"");
    buf_add_slice(out, ns);
    buf_add_str(out, "\",\"queue\":\"");
    buf_add_slice(out, queue);
    buf_add_str(out, "\",");
}

void lmstfy_item_show(struct buf *out, const struct queue_job *found, struct slice ns,
                      struct slice queue, unsigned remain_tries, const char *msg)
{
    int64_t elapsed_ms = lmstfy_elapsed_ms(found);
    buf_add_str(out, "{\"attributes\":");
    lmstfy_attrs_show(out, found->id, found->job);
    buf_add_str(out, ",\"data\":\"");
    text_add_base64(out, found->job->payload);
    buf_addf(out, "\",\"elapsed_ms\":%lld,\"job_id\":",
             (long long)(elapsed_ms < 0 ? 0 : elapsed_ms));
    text_add_json_go(out, found->id);
    if (msg)
        buf_addf(out, ",\"msg\":\"%s\"", msg);
    buf_add(out, ",", 1);
    lmstfy_add_queue(out, ns, queue);
    buf_addf(out, "\"remain_tries\":%u,\"ttl\":%lld}",
             remain_tries > UINT16_MAX ? UINT16_MAX : remain_tries,
             (long long)seconds_left(found));
}
