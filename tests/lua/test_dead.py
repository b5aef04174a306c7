# SPDX-License-Identifier: BSD-2-Clause
"""lua/dead.lua against a private Redis. A name is the sentence that it proves."""
import pytest

from conftest import Bucket


class Letters(Bucket):
    """A bucket with dead letters. now is 100000 unless a test sets it."""

    def bury(self, id_, at, reason="rejected", replays=0, attempts=1):
        new = self.client.hset(self.key["pool"], id_, "body of " + id_)
        self.client.hincrby(self.key["sums"], "stored", new)
        self.client.zadd(self.key["error"], {id_: at})
        self.client.hset(self.key["tries"], id_, f"{attempts}|{reason}|0/503/{replays}|1|2|why")

    def ask(self, what, now=100000, dry="", id_="", whole="", reason="", since=0, upto="",
            after=("", ""), most=10, look=500, limit=10, step=0, first=0, size=1000000, ahead=""):
        reply = self.run("dead", ("pool", "delay", "error", "tries"), now, what, dry, whole, id_,
                         reason, since, upto, *after, most, look, limit, step, first,
                         "wake", "r/0 me", size, self.kind, ahead)
        (self.now, self.head, self.end, self.more, score, id_, self.looked, self.done,
         self.refused, self.next) = reply[:10]
        self.at = (score, id_)
        rows = [reply[i:i + 6] for i in range(10, len(reply), 6)]
        self.rows = [(r[0].decode(), *r[1:]) for r in rows]
        return [row[0] for row in self.rows]

    def run_through(self, what, **how):
        """Returns all pages, continuing as bridge/admin/dead.c does."""
        got, pages = self.ask(what, **how), 1
        while self.more:
            how.update(after=self.at, upto=self.end, first=self.next)
            got += self.ask(what, **how)
            pages += 1
            assert pages < 100
        return got, pages

    def waiting(self):
        return [(i.decode(), int(s)) for i, s in
                self.client.zrange(self.key["delay"], 0, -1, withscores=True)]


@pytest.fixture
def letters(server):
    made = Letters(server)
    yield made
    made.check()


def test_letters_are_listed_with_all_that_is_known_the_oldest_first(letters):
    letters.bury("b", 20)
    letters.bury("a", 10, "retries", attempts=3)
    assert letters.ask("l") == ["a", "b"]
    assert letters.rows[0] == ("a", 10, b"3|retries|0/503/0|1|2|why", b"body of a", -1, 0)
    assert (letters.more, letters.looked, letters.done) == (0, 2, 0)


def test_each_filter_leaves_out_what_does_not_match(letters):
    for at, (id_, reason) in enumerate([("x-1", "rejected"), ("x-2", "retries"), ("y-1", "retries"),
                                        ("x", "late")]):
        letters.bury(id_, 10 * at, reason)
    assert letters.ask("l", reason="retries") == ["x-2", "y-1"]
    assert letters.ask("l", reason="retrie") == []
    assert letters.ask("l", id_="x") == ["x-1", "x-2", "x"]
    assert letters.ask("l", id_="x", whole="1") == ["x"]
    assert letters.ask("l", id_="z", whole="1") == []
    assert letters.ask("l", since=10, upto=20) == ["x-2", "y-1"]
    assert letters.ask("l", since=10, upto=20, id_="x", reason="retries") == ["x-2"]
    assert letters.ask("l", id_="x", whole="1", since=31) == []
    assert letters.ask("l", id_="x", whole="1", upto=29) == []


def test_a_page_ends_at_its_limits_and_the_next_continues_behind_it(letters):
    for n in range(25):
        letters.bury(f"{n:02}", 10 * (n // 10))  # many in the same ms
    assert letters.run_through("l", most=4) == ([f"{n:02}" for n in range(25)], 7)
    assert letters.run_through("l", look=7) == ([f"{n:02}" for n in range(25)], 4)
    assert letters.run_through("l", size=30) == ([f"{n:02}" for n in range(25)], 9)
    assert letters.run_through("l", size=1)[1] == 25  # one at a time, however large
    few, pages = letters.run_through("l", look=10, id_="2")
    assert few == ["20", "21", "22", "23", "24"] and pages == 3


@pytest.mark.slow
def test_no_call_looks_at_more_than_it_may_also_when_nothing_matches(letters):
    for n in range(1200):
        letters.bury(str(n), 10)
    assert letters.ask("l", reason="late", look=100000) == []
    assert (letters.looked, letters.more) == (500, 1)
    assert letters.run_through("l", reason="late")[1] == 3


def test_a_cursor_is_valid_after_its_letter_and_earlier_ones_are_removed(letters):
    for n in range(6):
        letters.bury(f"{n}\xff", 10)
    assert letters.ask("l", most=3) == ["0\xff", "1\xff", "2\xff"]
    at = letters.at
    assert letters.ask("d", most=4) == ["0\xff", "1\xff", "2\xff", "3\xff"]
    assert letters.ask("l", after=at) == ["4\xff", "5\xff"]


def test_a_cursor_does_not_lead_back_behind_a_later_beginning(letters):
    for n in range(4):
        letters.bury(str(n), 10 * n)
    assert letters.ask("l", most=1) == ["0"]
    assert letters.ask("l", since=20, after=letters.at) == ["2", "3"]


def test_letters_buried_before_the_clock_was_set_back_are_found_without_a_limit(letters):
    letters.bury("past", 10)
    letters.bury("ahead", 5000)
    assert letters.ask("l", now=1000, ahead="1") == ["past", "ahead"]
    assert letters.ask("l", now=1000, ahead="1", id_="ahead", whole="1") == ["ahead"]
    assert letters.ask("l", now=1000, upto=4000) == ["past"]
    assert letters.run_through("r", now=1000, ahead="1", most=1) == (["past", "ahead"], 2)
    assert letters.ask("l", now=1000, ahead="1") == []


def test_a_walk_skips_letters_buried_after_its_first_call_but_not_those_ahead(letters):
    for n in range(3):
        letters.bury(f"{n}", 10)
        letters.bury(f"{n} ahead", 5000)
    for look in (1, 2, 3, 4, 500):
        how = {"look": look, "ahead": "1"}
        got = letters.ask("l", now=1000, **how)
        letters.bury("new", 1001)
        while letters.more:
            got += letters.ask("l", now=2000, upto=letters.end, after=letters.at, **how)
        assert got == ["0", "1", "2", "0 ahead", "1 ahead", "2 ahead"]
        assert letters.ask("d", now=2000, id_="new", whole="1") == ["new"]


def test_a_replay_ignores_letters_buried_after_its_first_call(letters):
    for n in range(4):
        letters.bury(str(n), 10)
    assert letters.ask("r", most=2, now=1000) == ["0", "1"]
    end, at = letters.end, letters.at
    letters.client.zrem(letters.key["delay"], "0")
    letters.bury("0", 1001)  # it failed again
    assert letters.ask("r", now=2000, upto=end, after=at) == ["2", "3"]
    assert letters.more == 0
    assert letters.ask("l", now=2000) == ["0"]


def test_a_replayed_letter_is_stored_once_with_new_attempts(letters):
    letters.bury("a", 10, "retries", attempts=5)
    letters.bury("old", 20)
    letters.client.hset(letters.key["tries"], "old", "3|retries|2|1|2|as an older version wrote it")
    assert letters.ask("r", now=500) == ["a", "old"]
    assert (letters.done, letters.refused, letters.head) == (2, 0, 500)
    assert [row[4] for row in letters.rows] == [500, 500]
    assert letters.waiting() == [("a", 500), ("old", 500)]
    for id_ in ("a", "old"):
        assert letters.client.hget(letters.key["tries"], id_) == b"0||0/0/1|0|0|"
    assert letters.ask("r", now=501) == [] and letters.done == 0


def test_a_letter_that_was_replayed_too_often_is_refused_and_stays(letters):
    letters.bury("a", 10, replays=2)
    letters.bury("b", 20, replays=3)
    assert letters.ask("r", limit=3) == ["a", "b"]
    assert (letters.done, letters.refused) == (1, 1)
    assert [(row[4], row[5]) for row in letters.rows] == [(100000, 0), (-1, 1)]
    assert letters.client.hget(letters.key["tries"], "a") == b"0||0/0/3|0|0|"
    assert letters.ask("l") == ["b"]


def test_a_letter_without_a_route_is_not_replayed(letters):
    letters.bury("lost", 10, "no-route")
    letters.bury("found", 11, "rejected")
    assert letters.ask("r") == ["lost", "found"]
    assert (letters.done, letters.refused) == (1, 1) and letters.rows[0][4:] == (-1, 1)
    assert letters.waiting() == [("found", 100000)]


def test_with_a_rate_each_has_a_due_time_of_its_own_over_all_pages(letters):
    for n in range(8):
        letters.bury(str(n), 10)
    letters.run_through("r", now=1000, most=3, step=2500)
    assert [due for _, due in letters.waiting()] == [1000, 1003, 1005, 1008, 1010, 1013, 1015, 1018]


def test_a_replay_may_start_later(letters):
    letters.bury("a", 10)
    letters.ask("r", now=1000, first=5000000)
    assert letters.waiting() == [("a", 5000)]
    letters.bury("b", 10)
    letters.ask("r", now=9000, first=5000000)
    assert letters.waiting()[1] == ("b", 9000)


def test_a_dry_run_prints_the_same_and_changes_nothing(letters, server):
    letters.bury("a", 10)
    letters.bury("b", 20, replays=10)
    before = {key: server.dump(key) for key in server.keys("*")}
    assert letters.ask("r", dry="1") == ["a", "b"]
    assert (letters.done, letters.refused) == (1, 1)
    assert letters.ask("d", dry="1") == ["a", "b"] and letters.done == 2
    assert letters.ask("l") == ["a", "b"]
    assert {key: server.dump(key) for key in server.keys("*")} == before


def test_a_dropped_letter_is_removed_completely(letters, server):
    letters.bury("a", 10, "late")
    letters.bury("b", 20)
    assert letters.ask("d", reason="late") == ["a"] and letters.done == 1
    assert server.hkeys(letters.key["pool"]) == [b"b"] == server.hkeys(letters.key["tries"])
    assert letters.ask("d", id_="b", whole="1") == ["b"]
    assert letters.rest() == []


def test_a_replay_wakes_others_when_the_head_became_earlier(letters, server):
    listener = server.pubsub()
    listener.subscribe("wake")
    listener.get_message(timeout=1)
    letters.bury("a", 10)
    letters.ask("r", now=500)
    letters.bury("b", 10)
    letters.ask("r", now=600)
    letters.ask("l", now=600)
    heard = []
    while (message := listener.get_message(timeout=0.2)):
        heard.append(message["data"])
    listener.close()
    assert heard == [b"r/0 me"]


def test_replayed_jobs_of_a_key_are_delivered_one_at_a_time(letters, server):
    place, group = letters.key["pool"][:-4] + "place", "0123456789abcdef"
    for n, id_ in enumerate(("a", "b", "c")):
        letters.bury(id_, 10 + n)
        server.hset(place, id_, group + f"{10:016}{n:016}")
    letters.ask("r", now=1000)
    assert letters.waiting() == [("a", 1000)]
    held = [m.decode()[48:] for m in server.zrange(letters.key["pool"][:-4] + "held", 0, -1)]
    assert held == ["b", "c"]
    for id_ in ("a", "b", "c"):
        assert letters.cancel(id_) == "c"


def test_the_largest_page_is_accepted(letters):
    for n in range(501):
        letters.bury(f"{n:03}", 10)
    for what in "lr":
        assert len(letters.ask(what, most=500)) == 500
    assert len(letters.waiting()) == 500
    assert letters.ask("d", most=500) == ["500"]


@pytest.mark.parametrize("what", "rd")
def test_out_of_memory_letters_can_still_be_replayed_and_dropped(letters, server, what):
    letters.bury("a", 10)
    server.config_set("maxmemory", 1)
    try:
        assert letters.ask(what) == ["a"]
    finally:
        server.config_set("maxmemory", 0)
