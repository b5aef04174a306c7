/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zone.c - time zones by GLib's GTimeZone; see when.h.
 *
 * GLib also accepts offsets ("5"), rules ("EST5EDT,M3.2.0,M11.1.0") and any path below
 * the database's folder. Therefore a name must have valid letters and be a file of the
 * database before it is passed to GLib.
 */
#include "bridge/base/when.h"
#include "bridge/base/mem.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <glib.h>

/* Upper bound of all offsets from UTC, present and past. */
enum { OFFSET_MAX_S = 16 * 3600, NAME_MAX_BYTES = 64 };

static const int64_t WINTER_2100_S = INT64_C(4102444800);

struct zone {
    GTimeZone *tz;
};
static GHashTable *zones; /* by name; only existing zones, so the database limits the
                           * size */

/* Returns whether every part ("America", "Port-au-Prince", "GMT+1") starts with a capital
 * letter. Other names in the folder are not zones ("posix", "leapseconds"), or count leap
 * seconds ("right"). */
static bool is_name(struct slice s)
{
    bool starts = true; /* a part */
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool good = starts ? g_ascii_isupper(c)
                           : g_ascii_isalnum(c) || (c != '\0' && strchr("_+-/", c));
        if (!good)
            return false;
        starts = c == '/';
    }
    return !starts && s.n <= NAME_MAX_BYTES;
}

static const char *folder(void)
{
    const char *set = getenv("TZDIR"); /* GLib uses it too */
    return set ? set : "/usr/share/zoneinfo";
}

static bool is_in_database(const char *name)
{
    char path[4096], magic[4];
    int n = snprintf(path, sizeof(path), "%s/%s", folder(), name);
    int fd = n < (int)sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return false;
    ssize_t got = read(fd, magic, sizeof(magic));
    close(fd);
    return got == (ssize_t)sizeof(magic) && memcmp(magic, "TZif", sizeof(magic)) == 0;
}

/* GLib (2.74) treats an offset of 0 in a rule as missing. So it misreads "IST-1GMT0,..."
 * (Ireland) as a GMT that differs from UTC. Europe/London, which has the same time, then
 * replaces the zone. */
static GTimeZone *load(const char *name)
{
    GTimeZone *tz = g_time_zone_new_identifier(name);
    if (tz == NULL)
        return NULL;
    int i = g_time_zone_find_interval(tz, G_TIME_TYPE_UNIVERSAL, WINTER_2100_S);
    bool misread = g_time_zone_get_offset(tz, i) != 0 &&
                   strcmp(g_time_zone_get_abbreviation(tz, i), "GMT") == 0;
    if (!misread)
        return tz;
    g_time_zone_unref(tz);
    return g_time_zone_new_identifier("Europe/London");
}

/* Returns the cached zone, loading it if necessary, or NULL if it does not exist. */
static struct zone *cached_zone(struct slice name)
{
    char text[NAME_MAX_BYTES + 1] = "";
    memcpy(text, name.p, name.n);
    if (zones == NULL)
        zones = g_hash_table_new(g_str_hash, g_str_equal);
    struct zone *zone = g_hash_table_lookup(zones, text);
    if (zone)
        return zone;
    GTimeZone *tz = is_in_database(text) ? load(text) : NULL;
    if (tz == NULL)
        return NULL;
    zone = mem_alloc(sizeof(*zone));
    zone->tz = tz;
    g_hash_table_insert(zones, mem_strdup(text), zone);
    return zone;
}

static int no_zone(struct slice name, struct err *err)
{
    if (access(folder(), R_OK | X_OK) < 0)
        return err_set(err, "there are no time zones in %s; install tzdata, or write UTC",
                       folder());
    return err_set(
        err,
        "there is no time zone \"%.*s\" in %s; write one such as Europe/Berlin, or UTC",
        SLICE_ARG(name), folder());
}

int zone_named(struct slice name, struct zone **out, struct err *err)
{
    *out = NULL;
    if (slice_is(name, "UTC") || slice_is(name, "Etc/UTC"))
        return 0;
    if (!is_name(name))
        return err_set(err,
                       "not the name of a time zone; write one such as Europe/Berlin, or "
                       "UTC");
    *out = cached_zone(name);
    return *out ? 0 : no_zone(name, err);
}

int64_t zone_offset_s(const struct zone *zone, int64_t utc_s)
{
    if (zone == NULL)
        return 0;
    int i = g_time_zone_find_interval(zone->tz, G_TIME_TYPE_UNIVERSAL, utc_s);
    return g_time_zone_get_offset(zone->tz, i);
}

int64_t zone_change_s(const struct zone *zone, int64_t from_s, int64_t to_s)
{
    int64_t offset_s = zone_offset_s(zone, from_s);
    while (to_s - from_s > 1) {
        int64_t middle_s = from_s + (to_s - from_s) / 2;
        if (zone_offset_s(zone, middle_s) == offset_s)
            from_s = middle_s;
        else
            to_s = middle_s;
    }
    return to_s;
}

int64_t zone_reaches_s(const struct zone *zone, int64_t clock_s)
{
    /* At most one change of the offset lies between these two instants. */
    int64_t before_s = zone_offset_s(zone, clock_s - OFFSET_MAX_S);
    int64_t after_s = zone_offset_s(zone, clock_s + OFFSET_MAX_S);

    if (zone_offset_s(zone, clock_s - before_s) == before_s)
        return clock_s - before_s;
    if (zone_offset_s(zone, clock_s - after_s) == after_s)
        return clock_s - after_s;
    /* Local time skips clock_s: the clocks go forward between these two instants. */
    return zone_change_s(zone, clock_s - after_s, clock_s - before_s);
}
