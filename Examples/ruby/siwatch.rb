# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors

require "json"
require "net/http"
require "openssl"
require "securerandom"

# Asks siwatch's HTTP door. Threads may share it.
class Siwatch
  # Neither 200 nor 202 came. `status` is nil if no answer came.
  class Error < StandardError
    attr_reader :status, :type, :reason

    def initialize(status, problem)
      @status, @type, @reason = status, problem["type"], problem["reason"]
      super([status, *problem.values_at("title", "detail", "reason")].compact.join(": "))
    end

    def temporary? = status.nil? || status == 429 || status >= 500
    def rejected? = type == "urn:siwatch:problem:sign-in-rejected"
  end

  class WebhookRejected < StandardError; end

  def initialize(url, token)
    @url, @token, @away_until = URI(url), token, 0
  end

  # A sign-in without "user" has not been answered by Apple yet. Without a code you have verified the sign-in yourself: give `user_id`,
  # `signed_in_at` and, if you have one, `refresh_token`.
  def sign_in(client_id, code = nil, wait: 10, **members)
    post("/v1/sign-ins", { client_id:, code:, wait:, **members }.compact)
  end

  def ends_session?(user_id, signed_in_at)
    get("/v1/users/#{URI.encode_www_form_component(user_id)}/ends-session?signed_in_at=#{signed_in_at}")["ends_session"]
  end

  def delete(client_id, user_id) = post("/v1/deletions", { client_id:, user_id: })
  def deletion(id) = get("/v1/deletions/#{id}")
  def notify(body) = ask(Net::HTTP::Post.new("/v1/notifications"), body)

  # Verifies a webhook by Standard Webhooks 1.0, and returns its body, parsed. `headers` are a Rack environment.
  def self.verify_webhook(secrets, headers, body, now: Time.now.to_i)
    id, time, signatures = %w[ID TIMESTAMP SIGNATURE].map { |name| headers["HTTP_WEBHOOK_#{name}"].to_s }
    raise WebhookRejected, "no id or no time" unless !id.empty? && time.match?(/\A\d+\z/)
    raise WebhookRejected, "too old" if (now - time.to_i).abs > 300

    expected = secrets.map { |secret| sign(secret, "#{id}.#{time}.".b + body.b) }
    known = signatures.split.any? { |given| expected.any? { |one| OpenSSL.secure_compare(one, given) } }
    raise WebhookRejected, "no signature is by one of the secrets" unless known

    JSON.parse(body)
  end

  def self.sign(secret, content)
    key = secret.delete_prefix("whsec_").unpack1("m0")
    "v1,#{[OpenSSL::HMAC.digest("SHA256", key, content)].pack("m0")}"
  end
  private_class_method :sign

  private

  # A question gives up after two seconds. From then on questions raise at once; one in five seconds finds out whether siwatch is back.
  def get(path)
    raise Error.new(nil, { "title" => "siwatch is away" }) if now < @away_until

    @away_until = now + 5 if @away_until.positive?
    begin
      ask(Net::HTTP::Get.new(path), within: 2).tap { @away_until = 0 }
    rescue Error => error
      @away_until = error.temporary? ? now + 5 : 0
      raise
    end
  end

  # All tries of a request have one key, a random one: with a key made of the code, a thief of the code would get the first answer.
  def post(path, members)
    ask(Net::HTTP::Post.new(path, "Idempotency-Key" => SecureRandom.uuid, "Content-Type" => "application/json"), members.to_json)
  end

  def ask(request, body = nil, within: 15)
    ends = now + within
    request["Authorization"] = "Bearer #{@token}"
    request.body = body
    begin
      left = [ends - now, 0.1].max
      options = { use_ssl: @url.scheme == "https", open_timeout: [left, 2].min, read_timeout: left, max_retries: 0 }
      answer = Net::HTTP.start(@url.host, @url.port, **options) { _1.request(request) }
      members = answer["Content-Type"].to_s.include?("json") ? JSON.parse(answer.body) : {}
      raise Error.new(answer.code.to_i, members) unless %w[200 202].include?(answer.code)

      members
    rescue Error, SystemCallError, SocketError, IOError, Timeout::Error, Net::ProtocolError, JSON::ParserError => error
      error = Error.new(nil, { "title" => "No whole answer came", "detail" => error.message }) unless error.is_a?(Error)
      raise error unless error.temporary? && now + 0.3 < ends

      sleep 0.3
      retry
    end
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
