// SPDX-License-Identifier: BSD-2-Clause

// Runs the lmstfy project's own unmodified Go client with a running server.
//
//	lmstfy_client PORT NAMESPACE TOKEN
//
// Prints "ok NAME" for each case, or "FAILED NAME: why" and then exits with 1.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/bitleak/lmstfy/client"
)

type test struct {
	*client.LmstfyClient
	queue string // of this case only
}

func check(cond bool, format string, args ...interface{}) {
	if !cond {
		panic(fmt.Errorf(format, args...))
	}
}

func ok(err error) {
	check(err == nil, "%v", err)
}

// The client returns a typed nil, which as an error is not nil.
func okAPI(err *client.APIError) {
	check(err == nil, "%v", err)
}

func (t *test) publish(text string, ttl uint32, tries uint16, delay uint32) string {
	id, err := t.Publish(t.queue, []byte(text), ttl, tries, delay)
	ok(err)
	check(len(id) == 26, "id %q", id)
	return id
}

func (t *test) consume(ttr, timeout uint32) *client.Job {
	job, err := t.Consume(t.queue, ttr, timeout)
	ok(err)
	return job
}

func (t *test) mustConsume(id string, ttr, timeout uint32) *client.Job {
	job := t.consume(ttr, timeout)
	check(job != nil && job.ID == id, "got %+v instead of %s", job, id)
	return job
}

func (t *test) size(want int) {
	n, err := t.QueueSize(t.queue)
	okAPI(err)
	check(n == want, "size %d instead of %d", n, want)
}

func publishConsumeAck(t *test) {
	id := t.publish("hello\x00\xff", 60, 3, 0)
	t.size(1)
	job := t.mustConsume(id, 10, 2)
	check(string(job.Data) == "hello\x00\xff" && job.Queue == t.queue && job.Namespace == t.Namespace,
		"%+v", job)
	check(job.RemainTries == 2 && (job.TTL <= 60 && job.TTL > 30) && job.Attributes == nil, "%+v", job)
	okAPI(t.Ack(t.queue, id))
	okAPI(t.Ack(t.queue, id))
	check(t.consume(10, 0) == nil, "it came again")
	t.size(0)
}

func delayIsKept(t *test) {
	begun := time.Now()
	id := t.publish("later", 60, 1, 3)
	check(t.consume(10, 0) == nil, "too early")
	job := t.mustConsume(id, 10, 30)
	check(time.Since(begun) >= 3*time.Second && job.ElapsedMS >= 3000, "after %v, %d ms", time.Since(begun),
		job.ElapsedMS)
	okAPI(t.Ack(t.queue, id))
}

func redeliveredWhenTTREnds(t *test) {
	id := t.publish("again", 60, 2, 0)
	begun := time.Now()
	check(t.mustConsume(id, 1, 0).RemainTries == 1, "tries of the first")
	job := t.mustConsume(id, 1, 30)
	check(time.Since(begun) >= time.Second, "after %v", time.Since(begun))
	check(job.RemainTries == 0, "%+v", job)
	okAPI(t.Ack(t.queue, id))
}

func (t *test) bury(text string) string {
	id := t.publish(text, 60, 1, 0)
	t.mustConsume(id, 1, 0)
	for i := 0; i < 600; i++ {
		size, head, err := t.PeekDeadLetter(t.queue)
		okAPI(err)
		if size > 0 {
			check(size == 1 && head == id, "%d dead, %q", size, head)
			return id
		}
		time.Sleep(50 * time.Millisecond)
	}
	panic(fmt.Errorf("%s is not a dead letter", id))
}

func deadLetterAndRespawn(t *test) {
	id := t.bury("dead")
	dead, err := t.PeekJob(t.queue, id)
	okAPI(err)
	check(dead != nil && string(dead.Data) == "dead" && dead.TTL == 0, "%+v", dead)
	n, err := t.RespawnDeadLetter(t.queue, 10, 30)
	okAPI(err)
	check(n == 1, "%d respawned", n)
	job := t.mustConsume(id, 10, 2)
	check(job.RemainTries == 0 && (job.TTL <= 30 && job.TTL > 5), "%+v", job)
	okAPI(t.Ack(t.queue, id))
}

func deadLetterDeleted(t *test) {
	id := t.bury("gone")
	okAPI(t.DeleteDeadLetter(t.queue, 10))
	size, head, err := t.PeekDeadLetter(t.queue)
	okAPI(err)
	check(size == 0 && head == "", "%d dead, %q", size, head)
	job, err := t.PeekJob(t.queue, id)
	okAPI(err)
	check(job == nil, "%+v", job)
}

func batch(t *test) {
	ids, err := t.BatchPublish(t.queue, []interface{}{"a<b", 2, map[string]int{"x": 3}}, 60, 1, 0)
	ok(err)
	check(len(ids) == 3, "%v", ids)
	jobs, err := t.BatchConsume([]string{t.queue}, 2, 10, 2)
	ok(err)
	check(len(jobs) == 2 && jobs[0].ID == ids[0] && jobs[1].ID == ids[1], "%+v", jobs)
	check(string(jobs[1].Data) == "2", "%q", jobs[1].Data)
	jobs, err = t.BatchConsume([]string{t.queue}, 100, 10, 2)
	ok(err)
	check(len(jobs) == 1 && jobs[0].ID == ids[2] && string(jobs[0].Data) == `{"x":3}`, "%+v", jobs)
	jobs, err = t.BatchConsume([]string{t.queue}, 1, 10, 0)
	ok(err)
	check(len(jobs) == 0, "%+v", jobs)
}

func batchOfSeveralQueues(t *test) {
	next := *t
	next.queue += "-next"
	first, err := t.BatchPublish(t.queue, []interface{}{1, 2, 3}, 60, 1, 0)
	ok(err)
	second, err := t.BatchPublish(next.queue, []interface{}{4, 5}, 60, 1, 0)
	ok(err)
	jobs, err := t.BatchConsume([]string{t.queue, next.queue, t.queue + "-none"}, 5, 10, 2)
	ok(err)
	check(len(jobs) == 5, "%+v", jobs)
	for i, id := range append(first, second...) {
		check(jobs[i].ID == id, "%d: %+v", i, jobs[i])
	}
	check(jobs[2].Queue == t.queue && jobs[3].Queue == next.queue, "%+v", jobs)
}

func severalQueues(t *test) {
	low := *t
	low.queue += "-low"
	second := low.publish("low", 60, 1, 0)
	first := t.publish("high", 60, 1, 0)
	for _, want := range []struct{ id, queue string }{{first, t.queue}, {second, low.queue}} {
		job, err := t.ConsumeFromQueues(10, 2, t.queue, low.queue)
		ok(err)
		check(job != nil && job.ID == want.id && job.Queue == want.queue, "%+v", job)
	}
	done := make(chan string)
	go func() {
		job, _ := t.ConsumeFromQueues(10, 30, t.queue, low.queue)
		if job == nil {
			done <- "nothing"
		} else {
			done <- job.ID
		}
	}()
	time.Sleep(200 * time.Millisecond)
	third := low.publish("wakes", 60, 1, 0)
	got := <-done
	check(got == third, "%s instead of %s", got, third)
}

func republish(t *test) {
	id := t.publish("old", 60, 3, 0)
	job := t.mustConsume(id, 10, 2)
	again, err := t.RePublish(job, 60, 2, 0)
	ok(err)
	check(again != id, "the same id")
	gone, apiErr := t.PeekJob(t.queue, id)
	okAPI(apiErr)
	check(gone == nil, "%+v", gone)
	job = t.mustConsume(again, 10, 2)
	check(string(job.Data) == "old" && job.RemainTries == 1, "%+v", job)
}

func attributes(t *test) {
	id, err := t.PublishJob(&client.JobRequest{Queue: t.queue, Data: []byte("x"), TTL: 60, Tries: 1,
		Attributes: map[string]string{"colour": "red", "size": "<9>"}})
	ok(err)
	check(len(id) == 27 && id[0] == '1', "id %q", id)
	job := t.mustConsume(id, 10, 2)
	check(len(job.Attributes) == 2 && job.Attributes["colour"] == "red" && job.Attributes["size"] == "<9>",
		"%+v", job)
}

func peek(t *test) {
	none, err := t.PeekQueue(t.queue)
	okAPI(err)
	check(none == nil, "%+v", none)
	id := t.publish("look", 0, 5, 0)
	job, err := t.PeekQueue(t.queue)
	okAPI(err)
	check(job != nil && job.ID == id && job.RemainTries == 5 && job.TTL == 0, "%+v", job)
	job, err = t.PeekJob(t.queue, id)
	okAPI(err)
	check(job != nil && string(job.Data) == "look" && job.RemainTries == 0, "%+v", job)
}

func errorsAreTold(t *test) {
	_, err := t.Publish(t.queue, []byte("x"), 1, 1, 5)
	check(err != nil && err.(*client.APIError).Reason == "[400]ttl is shorter than delay", "%v", err)
	check(len(err.(*client.APIError).RequestID) == 26, "%v", err)
	stranger := client.NewLmstfyClient(t.Host, t.Port, t.Namespace, "nobody")
	_, err = stranger.Publish(t.queue, []byte("x"), 60, 1, 0)
	check(err != nil && err.(*client.APIError).Reason == "[401]invalid token", "%v", err)
	t.EnableErrorOnNilJob()
	_, err = t.Consume(t.queue, 10, 0)
	check(err != nil, "no error for no job")
}

func consumerThatLeavesTakesNothing(t *test) {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := t.ConsumeWithContext(ctx, t.queue, 60, 5)
	check(err != nil, "it did not leave")
	time.Sleep(time.Second) // until the daemon notices it
	id := t.publish("kept", 60, 1, 0)
	check(t.mustConsume(id, 10, 2).RemainTries == 0, "a try was lost")
}

var cases = []struct {
	name string
	run  func(*test)
}{
	{"publish-consume-ack", publishConsumeAck},
	{"delay", delayIsKept},
	{"redelivery", redeliveredWhenTTREnds},
	{"respawn", deadLetterAndRespawn},
	{"delete-dead", deadLetterDeleted},
	{"batch", batch},
	{"batch-of-several-queues", batchOfSeveralQueues},
	{"several-queues", severalQueues},
	{"republish", republish},
	{"attributes", attributes},
	{"peek", peek},
	{"errors", errorsAreTold},
	{"leaving", consumerThatLeavesTakesNothing},
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: lmstfy_client PORT NAMESPACE TOKEN")
		os.Exit(64)
	}
	port, err := strconv.Atoi(os.Args[1])
	ok(err)
	var wait sync.WaitGroup
	failed := make(chan string, len(cases))
	for _, c := range cases {
		c := c
		wait.Add(1)
		go func() {
			defer wait.Done()
			defer func() {
				if why := recover(); why != nil {
					failed <- fmt.Sprintf("FAILED %s: %v", c.name, why)
				} else {
					fmt.Println("ok", c.name)
				}
			}()
			c.run(&test{client.NewLmstfyClient("127.0.0.1", port, os.Args[2], os.Args[3]), "go-" + c.name})
		}()
	}
	wait.Wait()
	close(failed)
	code := 0
	for line := range failed {
		fmt.Println(line)
		code = 1
	}
	os.Exit(code)
}
