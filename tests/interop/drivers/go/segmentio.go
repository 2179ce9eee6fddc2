// Scenarios with segmentio/kafka-go.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

var codecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

var acknowledgements = map[string]kafka.RequiredAcks{"0": kafka.RequireNone, "1": kafka.RequireOne, "-1": kafka.RequireAll}

var (
	address = kafka.TCP(os.Args[1])
	// It answers requests for metadata from a cache, which has no new topic for six seconds.
	transport = &kafka.Transport{MetadataTTL: 200 * time.Millisecond}
	client    = &kafka.Client{Addr: address, Timeout: wait, Transport: transport}
)

func messages() []kafka.Message {
	var found []kafka.Message
	for n := range count {
		found = append(found, kafka.Message{Key: key(n), Value: value(n)})
	}
	return found
}

func one(key, value []byte) []kafka.Message { return []kafka.Message{{Key: key, Value: value}} }

func send(ctx context.Context, topic string, messages []kafka.Message, change func(*kafka.Writer)) (answer, error) {
	writer := &kafka.Writer{
		Addr: address, Topic: topic, BatchTimeout: 10 * time.Millisecond, RequiredAcks: kafka.RequireOne,
		BatchBytes: 2_000_000, Transport: transport, AllowAutoTopicCreation: true, MaxAttempts: 5,
	}
	change(writer)
	if err := writer.WriteMessages(ctx, messages...); err != nil {
		writer.Close()
		return nil, err
	}
	return nothing(writer.Close())
}

func unchanged(*kafka.Writer) {}

// sending returns an action that produces messages.
func sending(messages []kafka.Message) action {
	return func(ctx context.Context, topic, _ string) (answer, error) {
		return send(ctx, topic, messages, unchanged)
	}
}

func read(ctx context.Context, topic string, wanted int, from int64, level kafka.IsolationLevel) ([]kafka.Message, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{os.Args[1]}, Topic: topic, Partition: 0, MaxWait: 100 * time.Millisecond,
		MaxBytes: 2_000_000, IsolationLevel: level,
	})
	defer reader.Close()
	if err := reader.SetOffset(from); err != nil {
		return nil, err
	}
	return take(ctx, reader, wanted)
}

func take(ctx context.Context, reader *kafka.Reader, wanted int) ([]kafka.Message, error) {
	var found []kafka.Message
	for len(found) < wanted {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			return found, err
		}
		found = append(found, message)
	}
	return found, nil
}

// reading returns an action that lists something of each message of partition 0.
func reading(name string, wanted int, from int64, of func(kafka.Message) any) action {
	return func(ctx context.Context, topic, _ string) (answer, error) {
		found, err := read(ctx, topic, wanted, from, kafka.ReadCommitted)
		list := []any{}
		for _, each := range found {
			list = append(list, of(each))
		}
		return answer{name: list}, err
	}
}

func rowOf(message kafka.Message) any { return row(message.Offset, message.Key, message.Value) }

func readHeaders(ctx context.Context, topic, _ string) (answer, error) {
	found, err := read(ctx, topic, 1, 0, kafka.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	var headers []any
	for _, each := range found[0].Headers {
		headers = append(headers, []any{each.Key, string(each.Value)})
	}
	return answer{"headers": headers}, nil
}

func member(topic, group string) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{os.Args[1]}, Topic: topic, GroupID: group, StartOffset: kafka.FirstOffset,
		MaxWait: 100 * time.Millisecond, HeartbeatInterval: 500 * time.Millisecond,
	})
}

// reader returns an action that reads in a group and commits.
func reader(wanted int) action {
	return func(ctx context.Context, topic, group string) (answer, error) {
		joined := member(topic, group)
		defer joined.Close()
		found, err := take(ctx, joined, wanted)
		if err != nil {
			return nil, err
		}
		return answer{"count": len(found)}, joined.CommitMessages(ctx, found...)
	}
}

func share(ctx context.Context, topic, group string) (answer, error) {
	for range 2 {
		joined := member(topic, group)
		defer joined.Close()
		go joined.FetchMessage(ctx)
	}
	counts := []int{}
	for !(len(counts) == 2 && counts[0] == 1 && counts[1] == 1) && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		described, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
		if err != nil {
			continue
		}
		counts = counts[:0]
		for _, each := range described.Groups[0].Members {
			partitions := 0
			for _, assigned := range each.MemberAssignments.Topics {
				partitions += len(assigned.Partitions)
			}
			counts = append(counts, partitions)
		}
	}
	return answer{"assigned": counts}, nil
}

func offsets(ctx context.Context, topic string, asked ...kafka.OffsetRequest) (kafka.PartitionOffsets, error) {
	found, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: asked},
	})
	if err != nil {
		return kafka.PartitionOffsets{}, err
	}
	return found.Topics[topic][0], found.Topics[topic][0].Error
}

func bothEnds(ctx context.Context, topic, _ string) (answer, error) {
	found, err := offsets(ctx, topic, kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0))
	first, last := found.FirstOffset, found.LastOffset
	return answer{"earliest": first, "latest": last, "ends": []int64{first, last}}, err
}

func seekTime(ctx context.Context, topic, _ string) (answer, error) {
	found, err := offsets(ctx, topic, kafka.TimeOffsetOf(0, stamp(4).Add(time.Millisecond)))
	for offset := range found.Offsets {
		return answer{"offset": offset}, err
	}
	return nil, fmt.Errorf("no offset, %w", err)
}

func metadata(ctx context.Context, topics ...string) (*kafka.MetadataResponse, error) {
	return client.Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
}

// find returns a topic's metadata once the cache has it.
func find(ctx context.Context, topic string) (*kafka.Topic, error) {
	for ctx.Err() == nil {
		found, err := metadata(ctx)
		if err != nil {
			return nil, err
		}
		for _, each := range found.Topics {
			if each.Name == topic {
				return &each, nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, ctx.Err()
}

func listTopics(ctx context.Context, topic, _ string) (answer, error) {
	_, err := find(ctx, topic)
	return answer{"listed": err == nil}, err
}

func describeTopic(ctx context.Context, topic, _ string) (answer, error) {
	found, err := find(ctx, topic)
	if err != nil {
		return nil, err
	}
	return answer{"partitions": len(found.Partitions)}, nil
}

func describeCluster(ctx context.Context, _, _ string) (answer, error) {
	found, err := metadata(ctx)
	if err != nil {
		return nil, err
	}
	var brokers []string
	for _, each := range found.Brokers {
		brokers = append(brokers, fmt.Sprintf("%s:%d", each.Host, each.Port))
	}
	return answer{"brokers": brokers}, nil
}

func createTopic(ctx context.Context, topic, _ string) (answer, error) {
	entries := []kafka.ConfigEntry{{ConfigName: "max.message.bytes", ConfigValue: "500000"}}
	created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: topic, NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: entries},
	}})
	if err == nil {
		err = created.Errors[topic]
	}
	return nothing(err)
}

func deleteTopic(ctx context.Context, topic, _ string) (answer, error) {
	deleted, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err == nil {
		err = deleted.Errors[topic]
	}
	return nothing(err)
}

func addPartitions(ctx context.Context, topic, _ string) (answer, error) {
	added, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 4}},
	})
	if err == nil {
		err = added.Errors[topic]
	}
	return nothing(err)
}

func describeConfigs(ctx context.Context, topic, _ string) (answer, error) {
	described, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"},
		}},
	})
	if err != nil {
		return nil, err
	}
	return answer{"retention.ms": described.Resources[0].ConfigEntries[0].ConfigValue}, nil
}

func alterConfigs(ctx context.Context, topic, _ string) (answer, error) {
	altered, err := client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{
				Name: "retention.ms", Value: "654321", ConfigOperation: kafka.ConfigOperationSet,
			}},
		}},
	})
	if err == nil {
		err = altered.Resources[0].Error
	}
	return nothing(err)
}

func describeACLs(ctx context.Context, _, _ string) (answer, error) {
	described, err := client.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
		ResourceTypeFilter:        kafka.ResourceTypeAny,
		ResourcePatternTypeFilter: kafka.PatternTypeAny,
		Operation:                 kafka.ACLOperationTypeAny,
		PermissionType:            kafka.ACLPermissionTypeAny,
	}})
	if err == nil {
		err = described.Error
	}
	return nothing(err)
}

func listGroups(ctx context.Context, _, group string) (answer, error) {
	groups, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	for _, each := range groups.Groups {
		if each.GroupID == group {
			return answer{"listed": true}, nil
		}
	}
	return answer{"listed": false}, nil
}

func describeGroup(ctx context.Context, _, group string) (answer, error) {
	described, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return nil, err
	}
	found := described.Groups[0]
	return answer{"state": strings.ToLower(found.GroupState), "members": len(found.Members)}, nil
}

func offsetOf(ctx context.Context, topic, group string) (int64, error) {
	found, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: group, Topics: map[string][]int{topic: {0}},
	})
	if err != nil {
		return 0, err
	}
	return found.Topics[topic][0].CommittedOffset, nil
}

func groupOffsets(ctx context.Context, topic, group string) (answer, error) {
	offset, err := offsetOf(ctx, topic, group)
	return answer{"offset": offset}, err
}

func deleteGroup(ctx context.Context, _, group string) (answer, error) {
	deleted, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err == nil {
		err = deleted.Errors[group]
	}
	return nothing(err)
}

func commit(ctx context.Context, topic, group string) (answer, error) {
	committed, err := client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: 4}}},
	})
	if err == nil {
		err = committed.Topics[topic][0].Error
	}
	if err != nil {
		return nil, err
	}
	offset, err := offsetOf(ctx, topic, group)
	return answer{"committed": offset}, err
}

func main() {
	stamped := messages()
	for n := range stamped {
		stamped[n].Time = stamp(n)
	}
	withHeaders := one([]byte("key"), []byte("value"))
	withHeaders[0].Headers = []kafka.Header{
		{Key: "trace", Value: []byte("1")}, {Key: "trace", Value: []byte("2")}, {Key: "empty", Value: []byte{}},
	}
	drive(map[string]action{
		"create-topic":       createTopic,
		"list-topics":        listTopics,
		"describe-topic":     describeTopic,
		"describe-cluster":   describeCluster,
		"add-partitions":     addPartitions,
		"describe-configs":   describeConfigs,
		"alter-configs":      alterConfigs,
		"list-offsets":       bothEnds,
		"delete-topic":       deleteTopic,
		"describe-acls":      describeACLs,
		"list-groups":        listGroups,
		"describe-group":     describeGroup,
		"list-group-offsets": groupOffsets,
		"delete-group":       deleteGroup,
		"produce": func(ctx context.Context, topic, codec string) (answer, error) {
			return send(ctx, topic, messages(), func(writer *kafka.Writer) { writer.Compression = codecs[codec] })
		},
		"acks": func(ctx context.Context, topic, acks string) (answer, error) {
			return send(ctx, topic, messages(), func(writer *kafka.Writer) {
				writer.RequiredAcks = acknowledgements[acks]
			})
		},
		"timestamps":  sending(stamped),
		"headers":     sending(withHeaders),
		"null-key":    sending(one(nil, []byte("value"))),
		"null-value":  sending(one([]byte("key"), nil)),
		"megabyte":    sending(one([]byte("key"), letters(1_000_000))),
		"too-large":   sending(one([]byte("key"), letters(5000))),
		"auto-create": sending(one([]byte("key"), []byte("value"))),
		"read":        reading("records", count, 0, rowOf),
		"read-timestamps": reading("timestamps", count, 0, func(message kafka.Message) any {
			return message.Time.UnixMilli()
		}),
		"read-headers":   readHeaders,
		"read-nulls":     reading("records", 2, 0, rowOf),
		"read-megabyte":  reading("sizes", 1, 0, func(message kafka.Message) any { return len(message.Value) }),
		"seek-offset":    reading("offsets", 3, 7, func(message kafka.Message) any { return message.Offset }),
		"seek-end":       bothEnds,
		"seek-time":      seekTime,
		"read-committed": reading("keys", 5, 0, func(message kafka.Message) any { return string(message.Key) }),
		"group-read":     reader(count),
		"group-resume":   reader(4),
		"group-share":    share,
		"commit":         commit,
	})
}
