// Produces the records on its input to partition 0 of a topic with franz-go and reads them back.
//
// Arguments: bootstrap servers, topic, compression codec. Lines are as those of RoundTrip.java.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func main() {
	bootstrap, topic, codec := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	records := read(topic)
	offsets := produce(ctx, bootstrap, codec, records)
	consume(ctx, bootstrap, topic, offsets)
}

func read(topic string) []*kgo.Record {
	var records []*kgo.Record
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		millis, err := strconv.ParseInt(words[0], 10, 64)
		check(err)
		record := &kgo.Record{Topic: topic, Timestamp: time.UnixMilli(millis)}
		record.Key, record.Value = unhex(words[1]), unhex(words[2])
		for _, word := range words[3:] {
			name, value, _ := strings.Cut(word, "=")
			header := kgo.RecordHeader{Key: string(unhex(name)), Value: unhex(value)}
			record.Headers = append(record.Headers, header)
		}
		records = append(records, record)
	}
	return records
}

func produce(ctx context.Context, bootstrap, codec string, records []*kgo.Record) []int64 {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[codec]),
		kgo.AllowAutoTopicCreation(),
	)
	check(err)
	defer client.Close()
	var offsets []int64
	for _, result := range client.ProduceSync(ctx, records...) {
		check(result.Err)
		offsets = append(offsets, result.Record.Offset)
	}
	return offsets
}

func consume(ctx context.Context, bootstrap, topic string, offsets []int64) {
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(start))
	check(err)
	defer client.Close()
	for left := len(offsets); left > 0; {
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			left--
			fmt.Print(offsets[record.Offset], " ", record.Offset, " ", record.Timestamp.UnixMilli(), " ")
			fmt.Print(tohex(record.Key), " ", tohex(record.Value))
			for _, header := range record.Headers {
				fmt.Print(" ", hex.EncodeToString([]byte(header.Key)), "=", tohex(header.Value))
			}
			fmt.Println()
		})
	}
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
