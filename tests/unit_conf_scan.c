/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_conf_scan.c - which files @include includes. */
#include "bridge/base/mem.h"
#include "bridge/conf/conf.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char *path_in(const char *dir, const char *name)
{
    struct buf path = {0};
    buf_addf(&path, "%s/%s", dir, name);
    char *text = mem_strdup(buf_str(&path));
    buf_free(&path);
    return text;
}

/* name starts with the folder. */
static void write_in(const char *dir, const char *name, const char *text)
{
    char *path = path_in(dir, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    (void)mkdir(path, 0700);
    *slash = '/';
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    free(path);
}

static void remove_in(const char *dir, const char *const *names)
{
    for (; *names; names++) {
        char *path = path_in(dir, *names);
        assert_int_equal(remove(path), 0);
        free(path);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* In a folder whose own name looks like a pattern. */
static void
a_folder_is_included_by_its_name_and_one_that_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    static const char text[] = "@include \"[b]\"\n@include \"[b]/*.inc\"\n"
                               "@include \"none/*.conf\"\n@include \"loop/*.conf\"\n";
    char dir[] = "/tmp/tarry-[a]-XXXXXX";
    struct buf errors = {0};
    assert_non_null(mkdtemp(dir));
    write_in(dir, "main.conf", text);
    write_in(dir, "[b]/one.conf", "one = 9999999999;\n");
    write_in(dir, "b/two.inc", "two = 9999999999;\n");
    char *loop = path_in(dir, "loop"), *main = path_in(dir, "main.conf");
    assert_int_equal(symlink("loop", loop), 0);
    assert_null(conf_read(main, &errors));
    assert_non_null(strstr(buf_str(&errors), "[b]/one.conf:1: the number 9999999999 "));
    assert_non_null(strstr(buf_str(&errors), "b/two.inc:1: the number 9999999999 "));
    assert_non_null(strstr(buf_str(&errors), "loop/*.conf: Too many levels"));
    assert_null(strstr(buf_str(&errors), "none/"));
    buf_free(&errors);
    free(loop);
    free(main);
    remove_in(dir, (const char *const[]){"main.conf", "[b]/one.conf", "[b]", "b/two.inc",
                                         "b", "loop", NULL});
}

UNIT(conf_scan)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_folder_is_included_by_its_name_and_one_that_cannot_be_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
