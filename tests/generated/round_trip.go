// SPDX-License-Identifier: BSD-2-Clause

// A round trip with the generated Go client: round_trip URL TOKEN
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"example.com/round_trip/tarry"
)

// must returns the answer of a request.
func must[T, R any](answer T, _ R, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return answer
}

func main() {
	config := tarry.NewConfiguration()
	config.Servers = tarry.ServerConfigurations{{URL: os.Args[1]}}
	ctx := context.WithValue(context.Background(), tarry.ContextAccessToken, os.Args[2])
	client := tarry.NewAPIClient(config)
	jobs, queues := client.JobsAPI, client.QueuesAPI

	publish := jobs.PublishJob(ctx, "hooks").DelayId("order-1").DeliverAfter("1h").Body(map[string]int{"order": 1})
	published := must(publish.Execute())
	job := must(jobs.GetJob(ctx, "hooks", published.Id).Execute())
	fmt.Println("published", job.Id, job.State, job.GetPayload(), job.Due.Equal(published.GetDue()))
	known := must(publish.Execute())
	fmt.Println("duplicate", known.GetDuplicate(), known.GetBecause())
	fmt.Println("cancelled", must(jobs.CancelJob(ctx, "hooks", published.Id).Execute()).Cancelled)
	_, answer, err := jobs.GetJob(ctx, "hooks", published.Id).Execute()
	var failed *tarry.GenericOpenAPIError
	var problem tarry.ApiError
	if errors.As(err, &failed) && json.Unmarshal(failed.Body(), &problem) == nil {
		fmt.Println("error", answer.StatusCode, problem.Error)
	}

	must(queues.PublishQueueJob(ctx, "mails").DelayId("mail-1").DelayKey("k").Body(map[string]int{"mail": 1}).Execute())
	pulled := must(queues.PullJobs(ctx, "mails").Wait("10s").Execute()).Jobs[0]
	fmt.Println("pulled", pulled.Id, pulled.GetPayload(), pulled.GetKey(), pulled.Expires.Get(),
		pulled.Headers["content-type"])
	fmt.Println("acknowledged", must(queues.AckJob(ctx, "mails", pulled.Id).Token(pulled.Token).Execute()).Was)
	fmt.Println("empty", must(queues.PullJobs(ctx, "mails").Execute()))

	status := must(client.AdminAPI.GetStatus(ctx).Execute())
	fmt.Println("status", status.Ready, status.NowMs > 1<<32)
}
