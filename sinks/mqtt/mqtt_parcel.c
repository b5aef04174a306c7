/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_parcel.c - lists of parcels, and the way back to the loop thread.
 */
#include "sinks/mqtt/mqtt_parcel.h"

#include <stdio.h>

void mqtt_parcel_append(struct mqtt_parcels *list, struct mqtt_parcel *p)
{
    p->list = list;
    p->next = NULL;
    p->prev = list->last;
    if (list->last)
        list->last->next = p;
    else
        list->first = p;
    list->last = p;
    list->count++;
}

void mqtt_parcel_unlink(struct mqtt_parcel *p)
{
    struct mqtt_parcels *list = p->list;

    if (p->prev)
        p->prev->next = p->next;
    else
        list->first = p->next;
    if (p->next)
        p->next->prev = p->prev;
    else
        list->last = p->prev;
    list->count--;
    p->list = NULL;
}

static void on_returned(void *arg)
{
    struct mqtt_parcel *p = arg;

    p->returned(p);
}

void mqtt_parcel_finish(struct mqtt_parcel *p, enum outcome outcome, const char *why)
{
    mqtt_parcel_unlink(p);
    p->outcome = outcome;
    snprintf(p->why, sizeof(p->why), "%s", why);
    loop_post(on_returned, p);
}
