# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors

# Shows how a text that is bound as bytes finds nobody, and that Tables finds the user all the same.
# Needs no siwatch: `user_state` and `app_client` are plain tables here, in a file of its own.

require "sqlite3"
require "tmpdir"

Dir.mktmpdir do |folder|
  path = File.join(folder, "tables.sqlite")
  plain = SQLite3::Database.new(path)
  plain.execute_batch(<<~SQL)
    CREATE TABLE app_client (app TEXT, client_id TEXT) STRICT;
    INSERT INTO app_client VALUES ('example', 'com.example.app');
    CREATE TABLE user_state (app TEXT, user_id TEXT, state TEXT, reason TEXT, changed_at INTEGER) STRICT;
    INSERT INTO user_state VALUES ('example', '000341.5c8d.0917', 'revoked', 'consent_revoked', 1790000001000);
  SQL
  ENV.update("SIWATCH_FILE" => path, "APP" => "example", "CLIENT_ID" => "com.example.app")
  require_relative "by_sql"

  from_a_header = "000341.5c8d.0917".b
  trap = plain.execute(Tables::RULE, [from_a_header, "example", 1_790_000_000_999])
  raise "The trap is gone: the gem finds a user by bytes (#{trap})" unless trap == [[0]]
  raise "Tables does not find the user" unless BackendBySQL.settings.tables.ends_session?(from_a_header, 1_790_000_000_999)
  raise "Tables ends a newer session" if BackendBySQL.settings.tables.ends_session?(from_a_header, 1_790_000_001_000)
  ahead = (Time.now.to_i + 3600) * 1000
  raise "Tables keeps a session that is dated ahead" unless BackendBySQL.settings.tables.ends_session?(from_a_header, ahead)

  puts "bytes find nobody, Tables finds the user"
end
