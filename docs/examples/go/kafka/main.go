// SPDX-License-Identifier: BSD-2-Clause

// Sends a delayed record to Kafka:
//
//	kafka BROKERS TOPIC ID DELAY TEXT
package main

import (
	"context"
	"log"
	"os"

	"github.com/segmentio/kafka-go"
)

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: kafka BROKERS TOPIC ID DELAY TEXT")
	}
	writer := &kafka.Writer{Addr: kafka.TCP(os.Args[1]), Topic: os.Args[2], RequiredAcks: kafka.RequireAll}
	record := kafka.Message{Value: []byte(os.Args[5]), Headers: []kafka.Header{
		{Key: "delay-id", Value: []byte(os.Args[3])},
		{Key: "deliver-after", Value: []byte(os.Args[4])}}}
	if err := writer.WriteMessages(context.Background(), record); err != nil {
		log.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		log.Fatal(err)
	}
}
