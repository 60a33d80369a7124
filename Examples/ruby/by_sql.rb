# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors

# The same backend by SQL, on siwatch's SQLite file. It needs no webhook: it asks the rule at each request.

require "sqlite3"
require_relative "app"

# siwatch's tables. Each thread has a connection of its own.
class Tables
  # A time that is minutes ahead is a wrong clock's, and would outlive each revocation.
  RULE = <<~SQL
    SELECT EXISTS (SELECT 1 FROM user_state
                    WHERE user_id = ?1 AND app = ?2 AND (state = 'revoked' OR (state = 'notFound' AND reason = 'account_deleted'))
                      AND COALESCE(CAST(?3 AS BIGINT), 0) NOT BETWEEN changed_at AND strftime('%s', 'now') * 1000 + 300000)
  SQL

  def initialize(path, app, client_id)
    @path, @app, @client_id = path, app, client_id
    # A mistyped app has no users: no session would ever end, and nothing would say so.
    known = all("SELECT 1 FROM app_client WHERE app = ? AND client_id = ?", app, client_id)
    raise "siwatch does not know the client #{client_id} of the app #{app}" if known.empty?
  end

  def tell_sign_in(code, nonce)
    id = all("INSERT INTO grant_queue (client_id, authorization_code, nonce) VALUES (?, ?, ?) RETURNING id", @client_id, code, nonce)[0][0]
    ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 10
    loop do
      row = all("SELECT outcome, reason, user_id, signed_in_at FROM grant_outcome WHERE id = ?", id)[0]
      return row if row[0] != "waiting" || Process.clock_gettime(Process::CLOCK_MONOTONIC) > ends

      sleep 0.1
    end
  end

  def ends_session?(user_id, signed_in_at) = all(RULE, user_id, @app, signed_in_at) == [[1]]

  def tell_deletion(user_id)
    all("INSERT INTO revocation_queue (client_id, user_id) VALUES (?, ?) RETURNING id", @client_id, user_id)[0][0]
  end

  def tokens_of(deletion)
    all("SELECT client_id, outcome, reason FROM revocation_outcome WHERE id = ?", deletion).map { %w[client_id outcome reason].zip(_1).to_h.compact }
  end

  # Here bytes are right, because the statement makes a text of them.
  def keep_notification(body)
    connection.execute("INSERT INTO notification_queue (payload) VALUES (CAST(? AS TEXT))", [body.b])
  end

  private

  # The gem binds a string in ASCII-8BIT as bytes, and SQLite finds no text that is equal to bytes: a WHERE brings no row and no error, so no
  # session ever ends. Headers, bodies and decoded base64 are ASCII-8BIT. So every text is bound as UTF-8 here.
  def text(value)
    return value unless value.is_a?(String)

    value.dup.force_encoding(Encoding::UTF_8).tap { raise ArgumentError, "not UTF-8" unless _1.valid_encoding? }
  end

  def all(statement, *values) = connection.execute(statement, values.map { text(_1) })

  def connection
    Thread.current.thread_variable_get(:siwatch) || open.tap { Thread.current.thread_variable_set(:siwatch, _1) }
  end

  def open
    # Without CREATE: a mistyped path is an error, not a new file.
    db = SQLite3::Database.new(@path, flags: SQLite3::Constants::Open::READWRITE)
    db.execute_batch("PRAGMA busy_timeout = 5000; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = ON")
    db
  end
end

class BackendBySQL < Backend
  set :tables, Tables.new(ENV.fetch("SIWATCH_FILE"), ENV.fetch("APP"), ENV.fetch("CLIENT_ID"))

  helpers do
    def tell_sign_in(code, nonce)
      outcome, reason, user_id, signed_in_at = settings.tables.tell_sign_in(code, nonce)
      case outcome
      when "waiting" then nil
      when "rejected", "in_future" then { reason: reason || outcome }
      else { user_id:, signed_in_at: }
      end
    end

    def ends_session?(session) = settings.tables.ends_session?(session.user_id, session.signed_in_at)
    def tell_deletion(user_id) = settings.tables.tell_deletion(user_id)

    def receipt_of(deletion)
      tokens = settings.tables.tokens_of(deletion)
      outcomes = tokens.map { _1["outcome"] }
      { outcome: (%w[held waiting] & outcomes).first || "done", tokens: }
    end

    def keep_notification(body)
      return 400 if body.empty? || body.bytesize > 65_536

      settings.tables.keep_notification(body) && 200
    rescue SQLite3::Exception
      503
    end
  end
end

BackendBySQL.run!(bind: "127.0.0.1", port: ENV.fetch("PORT", 8000), server: "puma", quiet: true) if $PROGRAM_NAME == __FILE__
