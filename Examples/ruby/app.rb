# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors

# A backend with Sinatra that asks siwatch over HTTP. siwatch.rb is all that it needs of a client.
#
# Sessions are in memory, of one process. Replace Sessions by your table or your Redis.

require "sinatra/base"
require_relative "siwatch"

# Sessions by their secret key, and for each user the time before which sessions have ended.
class Sessions
  Session = Struct.new(:user_id, :signed_in_at)

  def initialize
    @mutex, @sessions, @ends = Mutex.new, {}, Hash.new(0)
  end

  def begin(user_id, signed_in_at)
    SecureRandom.urlsafe_base64(32).tap { |key| @mutex.synchronize { @sessions[key] = Session.new(user_id, signed_in_at) } }
  end

  def find(key)
    session = @mutex.synchronize { @sessions[key] }
    # The time is kept and asked here, because a webhook may come before the session that it ends.
    session if session && session.signed_in_at >= @ends[session.user_id]
  end

  def end(key) = @mutex.synchronize { @sessions.delete(key) }
  def end_all(user_id) = @mutex.synchronize { @sessions.delete_if { |_, session| session.user_id == user_id } }
  def end_before(user_id, time) = @mutex.synchronize { @ends[user_id] = [time, @ends[user_id]].max }
end

class Backend < Sinatra::Base
  set :show_exceptions, false
  set :siwatch, Siwatch.new(ENV.fetch("SIWATCH_URL", "http://127.0.0.1:9465"), ENV.fetch("SIWATCH_TOKEN", ""))
  set :secrets, ENV.fetch("SIWATCH_WEBHOOK_SECRET", "").split
  set :client_id, ENV.fetch("CLIENT_ID")
  set :sessions_by_key, Sessions.new
  set :receipts, {} # Secret links to the ids of deletions.

  # What asks siwatch. by_sql.rb has the same by SQL.
  module OverHTTP
    # The user and the time of the sign-in, or the reason of a rejection.
    def tell_sign_in(code, nonce)
      told = settings.siwatch.sign_in(settings.client_id, code, nonce:)
      told["user"] && { user_id: told["user"]["user_id"], signed_in_at: told["signed_in_at"] }
    rescue Siwatch::Error => error
      raise unless error.rejected?

      { reason: error.reason }
    end

    def ends_session?(session)
      settings.siwatch.ends_session?(session.user_id, session.signed_in_at)
    rescue Siwatch::Error => error
      raise unless error.temporary?

      false # siwatch is away: that is no reason to sign anybody out.
    end

    def tell_deletion(user_id) = settings.siwatch.delete(settings.client_id, user_id)["id"]
    def receipt_of(deletion) = settings.siwatch.deletion(deletion).slice("outcome", "tokens")

    # Only if no reverse proxy hands Apple's notifications to siwatch. Apple tries again after any answer but 200.
    def keep_notification(body)
      settings.siwatch.notify(body) && 200
    rescue Siwatch::Error => error
      error.status || 503
    end
  end

  helpers OverHTTP
  helpers do
    def answer(status, members = {}) = halt(status, { "Content-Type" => "application/json" }, members.to_json)

    # As in siwatch's OpenAPI document.
    def text?(value, length) = value.is_a?(String) && value.length <= length && value.match?(/\A[!-~]+\z/)

    # The session of the request. Ends it if the user has withdrawn consent since the sign-in.
    def current_session
      session = settings.sessions_by_key.find(request.cookies["session"]) or answer 401
      return session unless ends_session?(session)

      settings.sessions_by_key.end(request.cookies["session"])
      answer 401
    end
  end

  # A mistake is answered with 500, and the log has it: a backend that swallows it ends no session.
  error(Siwatch::Error) { answer env["sinatra.error"].temporary? ? 503 : 500 }

  post "/sign-in" do
    given = JSON.parse(request.body.read) rescue answer(400)
    answer 400 unless given.is_a?(Hash) && text?(given["code"], 8192) && (given["nonce"].nil? || text?(given["nonce"], 512))
    told = tell_sign_in(given["code"], given["nonce"]) or answer 503, reason: "Apple does not answer. Sign in again later."
    answer 401, told if told[:reason]
    key = settings.sessions_by_key.begin(told[:user_id], told[:signed_in_at])
    response.set_cookie("session", value: key, httponly: true, same_site: :lax, path: "/") # and secure: true behind TLS
    answer 200, user_id: told[:user_id]
  end

  get("/me") { answer 200, user_id: current_session.user_id }

  delete "/account" do
    session = current_session
    deletion = tell_deletion(session.user_id) # Tell siwatch first, then delete your own rows.
    settings.sessions_by_key.end_all(session.user_id)
    ticket = SecureRandom.urlsafe_base64(32)
    settings.receipts[ticket] = deletion
    answer 202, receipt: "/receipts/#{ticket}"
  end

  get "/receipts/:ticket" do
    answer 200, receipt_of(settings.receipts.fetch(params["ticket"]) { answer 404 })
  end

  post "/siwatch" do
    data = Siwatch.verify_webhook(settings.secrets, env, request.body.read)["data"]
    before = data["ends_sessions_before"]
    settings.sessions_by_key.end_before(data["user_id"], before) if before
    204
  rescue Siwatch::WebhookRejected
    answer 400
  end

  post("/apple/notifications") { answer keep_notification(request.body.read) }
end

Backend.run!(bind: "127.0.0.1", port: ENV.fetch("PORT", 8000), server: "puma", quiet: true) if $PROGRAM_NAME == __FILE__
