/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shorten.c - delta debugging over the steps of a plan.
 *
 * Leaves out groups of steps: first large ones, then smaller ones. If nothing more can be
 * left out, it goes on with another order of chances: a race may need luck when fewer
 * things happen.
 */
#include "tests/sim/shorten.h"

#include "bridge/base/mem.h"

#include <ctype.h>
#include <stdlib.h>

enum { LIMIT_S = 60, ORDERS = 8, SHOWN_LINES = 60 };
/* Indexes of a set; behind them the faults, then the jobs. */
enum { SINK, TIME, FIRST_FAULT };

struct set {
    bool *kept;
    size_t n, faults; /* all; of them faults */
    unsigned order;
};

static struct {
    uint64_t seed;
    const struct result *failed;
    double until_s;
    unsigned runs;
} search;

static void add_ranges(struct words *w, const bool *kept, size_t n, char kind)
{
    for (size_t i = 0, end; i < n; i = end + 1) {
        for (end = i; end < n && kept[end]; end++)
            ;
        if (end > i)
            w->at[w->n++] = end == i + 1 ? mem_format("%c%zu", kind, i)
                                         : mem_format("%c%zu-%zu", kind, i, end - 1);
    }
}

static struct words words_of(const struct set *set)
{
    struct words w = {.at = mem_alloc((set->n + 1) * sizeof(*w.at))};
    w.at[w.n++] = mem_format("o%u", set->order); /* always: no words keep everything */
    if (set->kept[SINK])
        w.at[w.n++] = mem_strdup("sink");
    if (set->kept[TIME])
        w.at[w.n++] = mem_strdup("time");
    add_ranges(&w, set->kept + FIRST_FAULT, set->faults, 'f');
    add_ranges(&w, set->kept + FIRST_FAULT + set->faults,
               set->n - FIRST_FAULT - set->faults, 'j');
    return w;
}

static void free_words(struct words w)
{
    for (size_t i = 0; i < w.n; i++)
        free((void *)w.at[i]);
    free(w.at);
}

/* Compares the beginnings without their numbers. */
static bool is_alike(const char *a, const char *b)
{
    for (int n = 0; n < 24; n++, a++, b++) {
        a += strspn(a, "0123456789");
        b += strspn(b, "0123456789");
        if (*a != *b)
            return false;
        if (*a == '\0')
            break;
    }
    return true;
}

static bool fails_alike(const struct set *set)
{
    struct words w = words_of(set);
    int left_s = (int)(search.until_s - cpu_seconds()) + 1;
    struct result r = run_child(search.seed, w, NULL, left_s);
    free_words(w);
    search.runs++;
    return r.code == search.failed->code && is_alike(r.reason, search.failed->reason);
}

/* Leaves out groups of `size` kept steps, the latest first. Returns whether any could be.
 */
static bool leave_out(struct set *set, size_t size, unsigned order)
{
    bool any = false;
    size_t *group = mem_alloc(size * sizeof(*group));
    for (size_t i = set->n; i > 0 && cpu_seconds() < search.until_s;) {
        size_t n = 0;
        for (; i > 0 && n < size; i--)
            if (set->kept[i - 1])
                set->kept[group[n++] = i - 1] = false;
        unsigned before = set->order;
        set->order = order;
        if (n > 0 && fails_alike(set)) {
            any = true;
            continue;
        }
        set->order = before;
        while (n > 0)
            set->kept[group[--n]] = true;
    }
    free(group);
    return any;
}

static void print_story(const struct set *set, const char *story)
{
    struct words w = words_of(set);
    struct result r = run_child(search.seed, w, story, LIMIT_S);
    printf("shortened by %u runs; fails alike: %s\nrepeat it: ./tests/run sim 1 %llu",
           search.runs, r.reason, (unsigned long long)search.seed);
    for (size_t i = 0; i < w.n; i++)
        printf(" %s", w.at[i]);
    char *command = mem_format("wc -l '%s'; tail -n %d '%s'", story, SHOWN_LINES, story);
    printf("\n");
    fflush(stdout);
    if (system(command) != 0)
        printf("(no story)\n");
    free(command);
    free_words(w);
}

void shorten(uint64_t seed, const struct result *failed, const char *story)
{
    struct set set = {.n = FIRST_FAULT + failed->faults + failed->jobs,
                      .faults = failed->faults};
    set.kept = mem_alloc(set.n);
    memset(set.kept, true, set.n);
    search.seed = seed;
    search.failed = failed;
    search.until_s = cpu_seconds() + LIMIT_S;
    for (unsigned order = 0; order < ORDERS; order++)
        for (size_t size = set.n / 2; size > 0 && cpu_seconds() < search.until_s;)
            if (!leave_out(&set, size, order) || size > 1)
                size /= 2;
    print_story(&set, story);
    free(set.kept);
}
