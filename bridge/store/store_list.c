/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/batcher.h"

#include <inttypes.h>
#include <stdio.h>

/* Compute where the page starts in this bucket: in the index at a score, after a score
 * ("("), or after a member of that score; in the slots likewise, with an ordinal. */
void bucket_list(struct bucket *b, struct store_list_ask *ask,
                 const struct list_position *behind, int64_t number, store_list_cb *cb,
                 void *arg)
{
    char from[24], after[24];
    ask->look = STORE_LIST_EXAMINE_MAX;
    ask->least = ask->what == LIST_WHAT_HELD ? SLICE_LIT("0") : SLICE_LIT("-inf");
    ask->least_slot = SLICE_LIT("-inf");
    if (behind) {
        bool far = behind->ordinal >= 0, here = number == behind->bucket;
        bool passed = number < behind->bucket; /* a previous page listed this score */
        snprintf(from, sizeof(from), "%" PRId64, behind->score);
        snprintf(after, sizeof(after), "(%" PRId64, behind->score);
        ask->least = slice_of(!far && passed ? after : from);
        ask->least_slot = slice_of(!far || passed ? after : from);
        if (far && here)
            ask->slot_at = behind->ordinal + 1;
        else if (here)
            ask->behind = behind->member;
    }
    store_list(b, ask, cb, arg);
}
