"""What docs/protocol.md claims, taken out of the code."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_KAFKA = "plugins/protocol_kafka"
_HANDLERS = "plugins/protocol_kafka/handlers"
_NEWS = (
    "A fetch session reads only what has changed, and its responses have only what the client does not know"
)
_WAITS = "A request of a session waits for `min_bytes`, and misses no append, log start or deletion"
_SUPERSEDED = "A newer request of a session supersedes one that waits; an evicted session still answers it"
_EVICTION = "Fetch sessions are evicted as in Kafka, and their partitions are limited"

REMOVALS: Final = (
    Removal(
        "ApiVersions returns the table above",
        f"{_KAFKA}/routes.py",
        'Served(21, 0, 2, "delete_records")',
        'Served(21, 0, 1, "delete_records")',
        f"{_KAFKA}/test_protocol_page.py::test_the_page_lists_the_served_versions",
    ),
    Removal(
        "ApiVersions returns the table above",
        f"{_HANDLERS}/api_versions.py",
        "for api in context.served",
        "for api in context.served[1:]",
        f"{_HANDLERS}/test_api_versions.py::test_api_versions_lists_the_served_versions_in_every_version",
    ),
    Removal(
        "An unknown version of ApiVersions is answered in version 0",
        f"{_KAFKA}/routes.py",
        "if api is API_VERSIONS:",
        "if api is None:",
        f"{_KAFKA}/test_routes.py::test_other_versions_are_a_violation_that_tells_which_are_served",
    ),
    Removal(
        "Other APIs and versions close the connection",
        f"{_KAFKA}/routes.py",
        "if not served.min_version <= version <= served.max_version:",
        "if version == -1:",
        f"{_KAFKA}/test_routes.py::test_other_versions_are_a_violation_that_tells_which_are_served",
    ),
    Removal(
        "Every API of Kafka's brokers is served, or closes the connection",
        f"{_KAFKA}/unserved.py",
        '    64: Unserved("UnregisterBroker", "this node is the only broker"),\n',
        "",
        f"{_KAFKA}/test_protocol_page.py::test_every_api_of_kafka_is_served_or_has_a_reason",
    ),
    Removal(
        "ApiVersions returns the levels of features that the data directory has",
        "plugins/metadata_kraft/feature_levels.py",
        "return {**self._replay.image.features, KRAFT_VERSION",
        "return {KRAFT_VERSION",
        f"{_HANDLERS}/test_update_features.py::test_api_versions_has_the_levels_of_the_data_directory",
    ),
    Removal(
        "UpdateFeatures changes all levels durably or none",
        "kernel/controller/features.py",
        "if changes and not validate_only:",
        "if changes:",
        f"{_HANDLERS}/test_update_features.py::test_update_features_that_only_validates_changes_nothing",
    ),
    Removal(
        "UpdateFeatures changes all levels durably or none",
        "plugins/metadata_kraft/feature_levels.py",
        "if wanted < level <= current]",
        "if wanted < level < current]",
        "plugins/metadata_kraft/test_feature_levels.py"
        "::test_check_levels_refuses_metadata_versions_that_lose_content",
    ),
    Removal(
        "With `group.version` 0 the consumer protocol is refused",
        f"{_HANDLERS}/consumer_group_heartbeat.py",
        "level(GROUP_VERSION) < CONSUMER_PROTOCOL:",
        "level(GROUP_VERSION) < 0:",
        f"{_HANDLERS}/test_update_features.py::test_group_version_0_disables_the_consumer_protocol",
    ),
    Removal(
        "DescribeTopicPartitions returns each partition once over all pages",
        f"{_HANDLERS}/describe_topic_partitions.py",
        "return cursor.partition_index if cursor is not None and cursor.topic_name == name else 0",
        "return 0",
        f"{_HANDLERS}/test_describe_topic_partitions.py"
        "::test_describe_topic_partitions_with_limits_and_cursors",
    ),
    Removal(
        "DescribeQuorum returns the offsets and voters of the metadata log",
        "plugins/metadata_kraft/log.py",
        "        self.high_watermark = end_offset\n",
        "",
        f"{_HANDLERS}/test_describe_quorum.py::test_describe_quorum_returns_this_node_as_the_only_voter",
    ),
    Removal(
        "ACL calls return SECURITY_DISABLED",
        f"{_HANDLERS}/create_acls.py",
        "error_code=ErrorCode.SECURITY_DISABLED",
        "error_code=ErrorCode.NONE",
        f"{_HANDLERS}/test_acls.py::test_create_acls_refuses_each_entry",
    ),
    Removal(
        "Client quotas are kept in the metadata",
        "plugins/metadata_kraft/store.py",
        "            await self._commits.commit(self._changes.alter_client_quotas(changes))\n",
        "            pass\n",
        "plugins/metadata_kraft/test_conformance.py",
    ),
    Removal(
        "Client quotas are kept in the metadata",
        f"{_HANDLERS}/alter_client_quotas.py",
        "        if times[entity] > 1:",
        "        if times[entity] < 0:",
        f"{_HANDLERS}/test_client_quotas.py::test_alter_client_quotas_refuses_duplicates",
    ),
    Removal(
        "Client quotas are kept in the metadata",
        "kernel/controller/client_quotas.py",
        "        if changes and not validate_only:",
        "        if changes:",
        f"{_HANDLERS}/test_client_quotas.py::test_alter_client_quotas_with_validate_only_changes_nothing",
    ),
    Removal(
        "SCRAM credentials are kept in the metadata",
        "plugins/metadata_kraft/store.py",
        "            await self._commits.commit(self._changes.alter_scram_credentials(changes))\n",
        "            pass\n",
        "plugins/metadata_kraft/test_conformance.py",
    ),
    Removal(
        "SCRAM credentials are kept in the metadata",
        "kernel/controller/scram.py",
        "    stored_key = hashlib.new(name, client_key).digest()\n",
        "    stored_key = client_key\n",
        f"{_HANDLERS}/test_user_scram_credentials.py"
        "::test_alter_user_scram_credentials_keeps_the_keys_of_rfc_5802",
    ),
    Removal(
        "The configuration of a group is in effect",
        "plugins/coordinator/consumer_groups/settings.py",
        "heartbeat_interval_ms=config[keys.GROUP_HEARTBEAT_INTERVAL_MS],",
        "heartbeat_interval_ms=self.of_broker.heartbeat_interval_ms,",
        f"{_HANDLERS}/test_resource_configs.py::test_heartbeat_interval_of_a_group_is_in_effect_at_once",
    ),
    Removal(
        "The configuration of a group is in effect",
        "kernel/controller/resource_configs.py",
        "            self._typed.pop((scope, name), None)\n",
        "",
        f"{_HANDLERS}/test_resource_configs.py::test_heartbeat_interval_of_a_group_is_in_effect_at_once",
    ),
    Removal(
        "The configuration of a group is in effect",
        f"{_HANDLERS}/list_config_resources.py",
        'resource_configs.names("group")',
        'resource_configs.names("client-metrics")',
        f"{_HANDLERS}/test_list_config_resources.py::test_list_config_resources_by_types",
    ),
    Removal(
        "Client metrics are delivered to plugins",
        f"{_KAFKA}/client_telemetry.py",
        "                receiver(pushed)\n",
        "                pass\n",
        f"{_HANDLERS}/test_client_telemetry.py::test_push_telemetry_delivers_the_metrics_of_every_codec",
    ),
    Removal(
        "Client metrics are delivered to plugins",
        f"{_KAFKA}/client_telemetry.py",
        "elif not instance.may_push(now_ms) and not terminating:",
        "elif instance is None:",
        f"{_HANDLERS}/test_client_telemetry.py::test_push_telemetry_is_accepted_once_in_an_interval",
    ),
    Removal(
        "Client metrics are delivered to plugins",
        f"{_KAFKA}/handlers/push_telemetry.py",
        "    if len(metrics) > max_bytes:",
        "    if max_bytes < 0:",
        f"{_HANDLERS}/test_client_telemetry.py::test_push_telemetry_checks_size_and_compression",
    ),
    Removal(
        "Keys that tools alter and that have no effect here are kept",
        f"{_KAFKA}/keys_without_effect.py",
        "    if boolean().parse(value):",
        "    if not value:",
        f"{_HANDLERS}/test_alter_configs.py::test_incremental_alter_configs_of_a_topic_keeps_what_asks_for_nothing",
    ),
    Removal(
        "Keys that tools alter and that have no effect here are kept",
        f"{_KAFKA}/keys_without_effect.py",
        "    *_OF_THREADS,\n",
        "",
        f"{_HANDLERS}/test_alter_configs.py"
        "::test_incremental_alter_configs_keeps_keys_without_effect_that_tools_alter",
    ),
    Removal(
        "Keys that tools alter and that have no effect here are kept",
        "kernel/controller/dynamic_config.py",
        "key.one_broker and text",
        "not key and text",
        f"{_HANDLERS}/test_alter_configs.py"
        "::test_incremental_alter_configs_sets_keys_of_authentication_for_one_broker_only",
    ),
    Removal(
        "DescribeConfigs of all brokers returns what is set for them",
        f"{_HANDLERS}/describe_configs.py",
        "        if key.name in settings:",
        "        if key.name:",
        f"{_HANDLERS}/test_describe_configs.py::test_describe_configs_of_all_brokers_has_what_is_set_for_them",
    ),
    Removal(
        "A frame whose length is negative or above `socket.request.max.bytes` closes the connection",
        f"{_KAFKA}/connection.py",
        "if not 0 <= length <= self._max_frame_bytes:",
        "if not 0 <= length:",
        f"{_KAFKA}/test_receive_buffer.py::test_next_frame_refuses_negative_lengths_and_lengths_above_the_limit",
    ),
    Removal(
        "A frame whose length is negative or above `socket.request.max.bytes` closes the connection",
        f"{_KAFKA}/connection.py",
        "if not 0 <= length <= self._max_frame_bytes:",
        "if length > self._max_frame_bytes:",
        f"{_KAFKA}/test_receive_buffer.py::test_next_frame_refuses_negative_lengths_and_lengths_above_the_limit",
    ),
    Removal(
        "A length alone allocates no memory: the buffer grows as bytes arrive, and is released",
        f"{_KAFKA}/connection.py",
        "max(2 * pending, min(max(needed, GROWN_BYTES), GROWTH * pending))",
        "max(2 * pending, needed, GROWN_BYTES)",
        f"{_KAFKA}/test_receive_buffer.py::test_room_for_an_announced_frame_grows_only_as_bytes_arrive",
    ),
    Removal(
        "A length alone allocates no memory: the buffer grows as bytes arrive, and is released",
        f"{_KAFKA}/connection.py",
        "if size > MAX_RETAINED_BYTES:",
        "if size < 0:",
        f"{_KAFKA}/test_receive_buffer.py::test_release_memory_of_a_large_buffer_is_immediate",
    ),
    Removal(
        "A length alone allocates no memory: the buffer grows as bytes arrive, and is released",
        f"{_KAFKA}/connection.py",
        "            self._replace(INITIAL_BYTES)\n",
        "            pass\n",
        f"{_KAFKA}/test_receive_buffer.py::test_release_memory_of_an_idle_connection_keeps_a_small_buffer",
    ),
    Removal(
        "A request that cannot be decoded closes the connection; bytes behind one are ignored",
        f"{_KAFKA}/connection.py",
        "        except DecodeError as error:\n"
        "            raise _malformed(route, error) from error\n"
        "        response = route.handle(context, request)\n"
        "        if type(response) is route.response_class:",
        "        except DecodeError:\n"
        "            return []\n"
        "        response = route.handle(context, request)\n"
        "        if type(response) is route.response_class:",
        f"{_KAFKA}/test_connection.py::test_next_step_raises_protocol_violation_on_invalid_requests",
    ),
    Removal(
        "A Produce request with `acks=0` that failed closes the connection; others get an error code",
        f"{_HANDLERS}/produce.py",
        "if partition.error_code:",
        "if partition.index < 0:",
        f"{_HANDLERS}/test_produce.py::test_produce_with_acks_0_closes_the_connection_after_an_error",
    ),
    Removal(
        "A Produce request with `acks=0` that failed closes the connection; others get an error code",
        f"{_HANDLERS}/produce.py",
        "if not -1 <= acks <= 1:",
        "if not acks:",
        f"{_HANDLERS}/test_produce.py::test_produce_with_acks_0_has_no_response",
    ),
    Removal(
        "A request that changes something is completed though its client has disconnected",
        f"{_KAFKA}/connection.py",
        "with trio.CancelScope(shield=True):\n            done = await",
        "with trio.CancelScope(shield=False):\n            done = await",
        f"{_KAFKA}/test_leaving_clients.py::test_create_topics_creates_all_topics_after_the_client_left",
    ),
    Removal(
        "A peer that disconnects while its request waits is detected, whatever is unread",
        "kernel/server/connection.py",
        "return sock.getsockopt(socket.IPPROTO_TCP, TCP_STATE, 1) != TCP_ESTABLISHED",
        'return sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""',
        "kernel/server/test_server.py::test_has_left_detects_a_closed_connection_with_unread_bytes",
    ),
    Removal(
        "`max.connections`, also of one listener, and `max.connections.per.ip`",
        "kernel/server/limits.py",
        "while self._total >= min(self.max_connections, self.max_by_descriptors) or",
        "while self._total < 0 or",
        "kernel/server/test_limits.py::test_wait_for_room_returns_when_a_connection_is_closed",
    ),
    Removal(
        "`max.connections`, also of one listener, and `max.connections.per.ip`",
        "kernel/server/limits.py",
        "return limit is not None and self._per_listener[listener] >= limit",
        "return False",
        "kernel/server/test_limits.py::test_wait_for_room_of_a_listener_that_has_its_own_limit",
    ),
    Removal(
        "`max.connections`, also of one listener, and `max.connections.per.ip`",
        "kernel/server/limits.py",
        "if self._per_ip[host] >= limit:",
        "if self._per_ip[host] < 0:",
        "kernel/server/test_limits.py::test_refusal_of_connections_beyond_max_per_ip_until_one_is_closed",
    ),
    Removal(
        "`max.connection.creation.rate`, also of one listener, and for an address by its quota",
        "kernel/server/server.py",
        "return max(of_listener, self._creation_rate",
        "return max(0.0, self._creation_rate",
        "kernel/server/test_connection_rates.py"
        "::test_max_connection_creation_rate_of_a_listener_holds_up_no_other_one",
    ),
    Removal(
        "`max.connection.creation.rate`, also of one listener, and for an address by its quota",
        "kernel/server/listener.py",
        "if seconds := pause():",
        "if (seconds := pause()) < 0:",
        "kernel/server/test_connection_rates.py"
        "::test_max_connection_creation_rate_makes_connections_above_it_wait",
    ),
    Removal(
        "`max.connection.creation.rate`, also of one listener, and for an address by its quota",
        "kernel/server/server.py",
        "if seconds := self._address_pause(peer.host, connections):",
        "if (seconds := self._address_pause(peer.host, connections)) < 0:",
        "kernel/server/test_connection_rates.py::test_quota_of_an_address_holds_connections_and_closes_them",
    ),
    Removal(
        "`connections.max.idle.ms`, also while a request waits",
        "kernel/server/connection.py",
        "self.idle_sweeps += 1",
        "self.idle_sweeps = 0",
        "kernel/server/test_server.py::test_idle_connections_are_closed",
    ),
    Removal(
        "`connections.max.idle.ms`, also while a request waits",
        f"{_HANDLERS}/fetch_reads.py",
        "return (wait_ms if idle_ms < 0 else min(wait_ms, idle_ms)) / 1000",
        "return wait_ms / 1000",
        f"{_HANDLERS}/test_fetch.py::test_fetch_waits_no_longer_than_connections_max_idle_ms",
    ),
    Removal(
        "The elements of all arrays of a request are limited, by its size",
        f"{_KAFKA}/codecs/layout.py",
        "return min(self.elements + size // self.bytes_per_element, MAX_ELEMENTS)",
        "return MAX_ELEMENTS",
        f"{_KAFKA}/codecs/test_steps.py::test_large_decoder_refuses_more_than_max_request_elements",
    ),
    Removal(
        "A large request is decoded, served and answered in steps",
        f"{_KAFKA}/codecs/layout.py",
        "SMALL_REQUEST: Final = Budget(FEW_ELEMENTS, or_else_too_many=True)",
        "SMALL_REQUEST: Final = Budget(MAX_REQUEST_ELEMENTS, or_else_too_many=True)",
        f"{_KAFKA}/codecs/test_steps.py::test_more_elements_are_too_many_for_one_step",
    ),
    Removal(
        "A topic or partition that is named more than once is in the response once",
        f"{_HANDLERS}/metadata.py",
        "each_once[asked.name, asked.topic_id] = asked",
        'each_once[str(number), b""] = asked',
        f"{_HANDLERS}/test_metadata.py::test_metadata_returns_a_duplicate_topic_once",
    ),
    Removal(
        "`fetch.max.bytes`; the first batch is returned whole",
        f"{_HANDLERS}/fetch_reads.py",
        "self._max_bytes = min(request.max_bytes, context.fetch_max_bytes)",
        "self._max_bytes = request.max_bytes",
        f"{_HANDLERS}/test_fetch.py::test_fetch_limits_the_response_by_fetch_max_bytes",
    ),
    Removal(
        "`fetch.max.bytes`; the first batch is returned whole",
        f"{_HANDLERS}/fetch_reads.py",
        "if self.size and allowed <= 0:",
        "if allowed <= 0:",
        f"{_HANDLERS}/test_fetch.py::test_fetch_returns_the_first_batch_whole",
    ),
    Removal(
        "A fetch waits for `min_bytes`, and misses no append meanwhile",
        f"{_HANDLERS}/fetch_reads.py",
        "self.size >= self._min_bytes",
        "self.size >= 0",
        f"{_HANDLERS}/test_fetch.py::test_fetch_waits_at_an_empty_partition",
    ),
    Removal(
        "A fetch waits for `min_bytes`, and misses no append meanwhile",
        f"{_HANDLERS}/full_fetch.py",
        "while read.is_outdated(response):",
        "while not read:",
        f"{_HANDLERS}/test_fetch.py::test_fetch_sees_an_append_between_reading_and_waiting",
    ),
    Removal(
        _NEWS,
        f"{_KAFKA}/fetch_session.py",
        "news = bool(data.error_code or not cached.has_offsets_of(data))",
        "news = True",
        f"{_HANDLERS}/test_fetch_sessions.py::test_fetch_session_checks_the_leader_epoch",
    ),
    Removal(
        _NEWS,
        f"{_KAFKA}/fetch_session.py",
        "            self.changed.pop(cached, None)\n        else:",
        "            pass\n        else:",
        f"{_HANDLERS}/test_fetch_sessions.py::test_fetch_session_reads_no_partition_that_has_not_changed",
    ),
    Removal(
        _NEWS,
        f"{_KAFKA}/fetch_session.py",
        "cached.place = next(self._places)",
        "pass",
        f"{_HANDLERS}/test_fetch_sessions.py::test_fetch_session_takes_turns",
    ),
    Removal(
        _WAITS,
        f"{_HANDLERS}/incremental_fetch.py",
        "session.uncounted != self._uncounted or ",
        "",
        f"{_HANDLERS}/test_fetch_sessions.py::test_fetch_session_sees_an_append_between_reading_and_waiting",
    ),
    Removal(
        _WAITS,
        f"{_KAFKA}/fetch_session.py",
        "waiter.grew(committed_bytes if session.isolation else uncommitted_bytes)",
        "waiter.grew(uncommitted_bytes)",
        f"{_HANDLERS}/test_fetch_sessions.py"
        "::test_fetch_session_of_committed_records_waits_for_the_end_of_a_transaction",
    ),
    Removal(
        _WAITS,
        "kernel/partition/watermarks.py",
        "        self._advance_stable()\n        self.notify()",
        "        self._advance_stable()",
        f"{_HANDLERS}/test_fetch_sessions.py::test_fetch_session_reports_a_log_start_without_waking_for_it",
    ),
    Removal(
        _WAITS,
        "kernel/partition/watermarks.py",
        ", *(self.watchers or ())",
        "",
        f"{_HANDLERS}/test_fetch_sessions.py::test_fetch_session_is_woken_when_a_topic_is_deleted",
    ),
    Removal(
        _SUPERSEDED,
        f"{_KAFKA}/fetch_session.py",
        "            self.waiter.abandon()\n        if isolation",
        "            pass\n        if isolation",
        f"{_HANDLERS}/test_fetch_sessions.py::test_fetch_session_supersedes_a_request_that_waits",
    ),
    Removal(
        _SUPERSEDED,
        f"{_KAFKA}/fetch_session.py",
        "        if self._holds:\n            return",
        "        if self._holds < 0:\n            return",
        f"{_HANDLERS}/test_fetch_sessions.py"
        "::test_fetch_session_that_is_evicted_while_a_request_waits_still_answers_it",
    ),
    Removal(
        _EVICTION,
        f"{_KAFKA}/fetch_session_cache.py",
        "evictable[0] <= other else None",
        "evictable[0] else None",
        f"{_KAFKA}/test_fetch_session_cache.py::test_fetch_session_cache_evicts_by_age_privilege_and_size",
    ),
    Removal(
        _EVICTION,
        f"{_KAFKA}/fetch_session_cache.py",
        "            _discard(self.evictable_by_privileged, entry.value)\n            self.partitions -=",
        "            self.partitions -=",
        f"{_KAFKA}/test_fetch_session_cache.py::test_fetch_session_cache_stays_within_its_limits",
    ),
    Removal(
        _EVICTION,
        f"{_KAFKA}/fetch_session_cache.py",
        "if size > MAX_SESSION_PARTITIONS or self.partitions > self._max_partitions:",
        "if size < 0:",
        f"{_HANDLERS}/test_fetch_sessions.py::test_fetch_session_may_not_grow_beyond_its_share_of_memory",
    ),
    Removal(
        "Invalid records are named in the Produce response, up to 10,000 of a request",
        f"{_HANDLERS}/produce.py",
        "in error.record_errors[: self._record_errors]",
        "in error.record_errors",
        f"{_HANDLERS}/test_produce.py::test_produce_names_invalid_records_up_to_a_limit",
    ),
    Removal(
        "Invalid records are named in the Produce response, up to 10,000 of a request",
        f"{_HANDLERS}/produce.py",
        "if isinstance(error, RecordsRefused) and error.record_errors:",
        "if error is None:",
        f"{_HANDLERS}/test_produce.py::test_produce_names_invalid_records_up_to_a_limit",
    ),
    Removal(
        "Clients cannot write to internal topics",
        f"{_HANDLERS}/produce.py",
        "if topic.is_internal and context.client_id != INTERNAL_WRITER:",
        "if context is None:",
        f"{_HANDLERS}/test_produce.py::test_produce_refuses_internal_topics",
    ),
    Removal(
        "The number of partitions of internal topics cannot be changed",
        "kernel/topics/topics.py",
        "        if topic.is_internal:\n"
        "            raise InvalidRequest(\n"
        '                f"topic {name!r} is internal and keeps',
        "        if topic is None:\n"
        "            raise InvalidRequest(\n"
        '                f"topic {name!r} is internal and keeps',
        f"{_HANDLERS}/test_create_partitions.py::test_create_partitions_refuses_internal_topics",
    ),
    Removal(
        "Metadata returns UNKNOWN_TOPIC_OR_PARTITION for a topic that it has just created",
        f"{_HANDLERS}/metadata.py",
        "            topics.request(name)\n",
        "            pass\n",
        f"{_HANDLERS}/test_metadata.py::test_metadata_creates_a_missing_topic_after_its_answer",
    ),
    Removal(
        "Metadata returns UNKNOWN_TOPIC_OR_PARTITION for a topic that it has just created",
        f"{_HANDLERS}/metadata.py",
        "and context.broker.config[keys.AUTO_CREATE_TOPICS_ENABLE]",
        "",
        f"{_HANDLERS}/test_metadata.py::test_metadata_creates_no_topic_unless_the_broker_allows_it",
    ),
    Removal(
        "At most 10,000 partitions of a new topic, and added by one request",
        "kernel/topics/topics.py",
        "if partitions > MAX_PARTITIONS_PER_TOPIC:",
        "if partitions is None:",
        "kernel/topics/test_topics.py::test_check_and_create_refuse_an_invalid_topic",
    ),
    Removal(
        "At most 10,000 partitions of a new topic, and added by one request",
        f"{_HANDLERS}/create_topics.py",
        "refusal = _too_many(partitions) if partitions > MAX_PARTITIONS_PER_REQUEST else None",
        "refusal = None",
        f"{_HANDLERS}/test_create_topics.py::test_create_topics_limits_the_partitions_of_a_request",
    ),
    Removal(
        "At most 64 KiB of error messages in one response",
        f"{_KAFKA}/context.py",
        "self.message_bytes_left -= len(text)",
        "pass",
        f"{_KAFKA}/test_context.py::test_error_message_returns_none_after_64_kib_in_one_response",
    ),
)
