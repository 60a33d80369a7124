// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Schema {
    /// The channel on which inserts notify, for this schema alone.
    static let channel = "'siwatch_' || 'credential_change'::regclass::oid"

    /// How long later inserts stay silent after one has notified, because siwatch is awake and looks. In milliseconds.
    static let quiet = 250

    static let queuesThatTell = ["notification_queue", "grant_queue", "revocation_queue", "operator_request"]

    /// The gate of a queue: a sequence that holds the time until which it is shut.
    static func gate(of queue: String) -> String { "\(queue)_quiet" }

    /// A gate for each queue. A NOTIFY takes a lock of the whole server when it commits, so only the first insert after a pause sends one.
    /// Later inserts see that the gate is shut, and send none.
    ///
    /// A gate is a sequence and not a row. So it shuts at once and for all, its transaction locks nobody out, however long it takes, and it
    /// leaves no dead row. Two inserts at the same moment both notify, which does no harm.
    static let triggers = """
        \(queuesThatTell.map { "CREATE SEQUENCE \(gate(of: $0)) MINVALUE 0;" }.joined(separator: "\n"))

        CREATE FUNCTION tell_of_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
        DECLARE
          gate   REGCLASS := TG_ARGV[0];
          now_ms BIGINT   := extract(epoch FROM clock_timestamp()) * 1000;
        BEGIN
          -- A time too far ahead is of a clock that has since been set back.
          -- Anybody who may connect can fill the server's queue of notifications. A full one would refuse this insert; siwatch finds the row
          -- without a word within a second.
          IF COALESCE(pg_sequence_last_value(gate), 0) NOT BETWEEN now_ms AND now_ms + 1000 AND pg_notification_queue_usage() < 0.5 THEN
            PERFORM setval(gate, now_ms + \(quiet));
            PERFORM pg_notify(\(channel), TG_TABLE_NAME);
          END IF;
          RETURN NULL;
        END
        $$;
        REVOKE ALL ON FUNCTION tell_of_insert() FROM PUBLIC;

        \(queuesThatTell.map(trigger).joined(separator: "\n"))

        """

    private static func trigger(on table: String) -> String {
        """
        CREATE TRIGGER \(table)_insert AFTER INSERT ON \(table) FOR EACH STATEMENT EXECUTE FUNCTION tell_of_insert('\(gate(of: table))');
        """
    }
}
