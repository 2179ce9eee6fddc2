// Produces the records on its input to partition 0 of a topic with sarama and reads them back.
//
// Arguments: bootstrap servers, topic, compression codec. Lines are as those of RoundTrip.java.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

func main() {
	bootstrap, topic, codec := os.Args[1], os.Args[2], os.Args[3]
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	check(config.Producer.Compression.UnmarshalText([]byte(codec)))
	offsets := produce(bootstrap, config, read(topic))
	consume(bootstrap, config, topic, offsets)
}

func read(topic string) []*sarama.ProducerMessage {
	var messages []*sarama.ProducerMessage
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		millis, err := strconv.ParseInt(words[0], 10, 64)
		check(err)
		message := &sarama.ProducerMessage{Topic: topic, Timestamp: time.UnixMilli(millis)}
		message.Key, message.Value = encoder(words[1]), encoder(words[2])
		for _, word := range words[3:] {
			name, value, _ := strings.Cut(word, "=")
			header := sarama.RecordHeader{Key: unhex(name), Value: unhex(value)}
			message.Headers = append(message.Headers, header)
		}
		messages = append(messages, message)
	}
	return messages
}

func produce(bootstrap string, config *sarama.Config, messages []*sarama.ProducerMessage) []int64 {
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	check(err)
	check(producer.SendMessages(messages))
	check(producer.Close())
	var offsets []int64
	for _, message := range messages {
		offsets = append(offsets, message.Offset)
	}
	return offsets
}

func consume(bootstrap string, config *sarama.Config, topic string, offsets []int64) {
	consumer, err := sarama.NewConsumer([]string{bootstrap}, config)
	check(err)
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	check(err)
	for range offsets {
		select {
		case message := <-partition.Messages():
			fmt.Print(offsets[message.Offset], " ", message.Offset, " ", message.Timestamp.UnixMilli(), " ")
			fmt.Print(tohex(message.Key), " ", tohex(message.Value))
			for _, header := range message.Headers {
				fmt.Print(" ", hex.EncodeToString(header.Key), "=", tohex(header.Value))
			}
			fmt.Println()
		case <-time.After(30 * time.Second):
			check(fmt.Errorf("no record came"))
		}
	}
	check(consumer.Close())
}

func encoder(text string) sarama.Encoder {
	if text == "null" {
		return nil
	}
	return sarama.ByteEncoder(unhex(text))
}

func unhex(text string) []byte {
	if text == "null" {
		return nil
	}
	bytes, err := hex.DecodeString(text)
	check(err)
	return bytes
}

func tohex(bytes []byte) string {
	if bytes == nil {
		return "null"
	}
	return hex.EncodeToString(bytes)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
