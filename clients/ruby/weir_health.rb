# Health digest of an application: GET /weir/health and /weir/health/live.
#
#     require_relative "weir_health"
#
#     worker = Thread.new { sleep }
#
#     health = WeirHealth.new("shop", release: "1.4.2")
#     health.register("workers", every: 5, scope: "self") do
#       raise "no worker is alive" unless worker.alive?
#     end
#     health.register("feed:rate", every: 10, scope: "dependency") do
#       { observedValue: 62, observedUnit: "/s", threshold: 50 }
#     end
#     health.serve(9201) # or: run health.rack(app), match "/weir/health", to: health, via: :all
#
# A check passes when it returns anything but false, or members of its result; it fails when it
# raises or returns false. Each check runs on a separate thread, started again after a fork
# (Puma's workers); requests never run one.
require "json"
require "socket"
require "time"

class WeirHealth
  MEMBERS = %i[status observedValue observedUnit threshold output].freeze
  REASONS = { 200 => "OK", 404 => "Not Found", 405 => "Method Not Allowed", 503 => "Service Unavailable" }.freeze
  Check = Struct.new(:fn, :every, :scope, :registered, :started, :ended, :result)

  def initialize(service, release: nil, clock: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
    @head = { serviceId: service, releaseId: release }.compact
    @clock, @checks, @lock, @pid = clock, {}, Mutex.new, Process.pid
  end

  def register(name, every:, scope:, &fn)
    unless fn && %w[self dependency].include?(scope) && every.positive? && !@checks.key?(name)
      raise ArgumentError, "cannot register check `#{name}`: the scope is self or dependency, every > 0, the name new"
    end
    @checks[name] = start(Check.new(fn, every, scope))
  end

  # Rack: status, headers and body of a request.
  def call(env)
    answer(env["REQUEST_METHOD"], env["SCRIPT_NAME"].to_s + env["PATH_INFO"].to_s)
  end

  # An application of Rack that leaves other paths to `app`.
  def rack(app)
    ->(env) { (answer = call(env)).first == 404 ? app.call(env) : answer }
  end

  def answer(method, path)
    path = path.split("?").first.to_s
    return [404, { "content-length" => "0" }, []] unless path.end_with?("/weir/health", "/weir/health/live")
    return [405, { "allow" => "GET, HEAD", "content-length" => "0" }, []] unless %w[GET HEAD].include?(method)
    status, digest = path.end_with?("/live") ? [200, { status: "pass" }] : self.digest
    body = JSON.generate(digest)
    headers = { "content-type" => "application/health+json", "cache-control" => "no-store",
                "content-length" => body.bytesize.to_s }
    [status, headers, method == "HEAD" ? [] : [body]]
  end

  # The status code and the digest of the last results.
  def digest
    @lock.synchronize { restart if Process.pid != @pid }
    now, is_failed, is_warned = @clock.call, false, false
    checks = @checks.to_h do |name, check|
      result, counts = @lock.synchronize { state(check, now) }
      is_failed ||= counts && check.scope == "self"
      is_warned ||= result[:status] != "pass"
      [name, [{ **result, scope: check.scope }]]
    end
    status = is_failed ? "fail" : is_warned ? "warn" : "pass"
    [is_failed ? 503 : 200, { status: status, **@head, checks: checks }]
  end

  # Answers on a port of the loopback; returns the port, which is another one for 0.
  def serve(port)
    server = TCPServer.new("127.0.0.1", port)
    Thread.new { loop { Thread.new(server.accept) { |client| talk(client) } } }
    server.addr[1]
  end

  private

  # A forked process has no threads.
  def restart
    @pid = Process.pid
    @checks.each_value { |check| start(check) }
  end

  def start(check)
    check.registered, check.started, check.ended, check.result = @clock.call, nil, nil, {}
    Thread.new do
      loop do
        check.started = @clock.call
        result = run(check)
        @lock.synchronize { check.result, check.started, check.ended = result, nil, @clock.call }
        sleep check.every
      end
    end
    check
  end

  def run(check)
    value = check.fn.call
    raise "the check returned false" if value == false
    found = value.is_a?(Hash) ? value.transform_keys(&:to_sym).slice(*MEMBERS).compact : {}
    result = { status: "pass", **found.transform_values { |member| plain(member) }.compact }
    raise "unknown status #{result[:status]}" unless %w[pass warn fail].include?(result[:status])

    { **result, time: Time.now.utc.iso8601 }
  rescue Exception => e # a check that exits must not end its loop
    { status: "fail", output: plain("#{e.class}: #{e.message}"), time: Time.now.utc.iso8601 }
  end

  # A value that JSON can hold: finite numbers, text of at most 500 characters.
  def plain(value)
    return value.to_f.finite? ? value : nil if value.is_a?(Integer) || value.is_a?(Float)

    value.to_s.dup.force_encoding("UTF-8").scrub[0, 500]
  end

  # The result as it counts now, and whether the last run failed.
  def state(check, now)
    every, age, is_failed = check.every, now - (check.ended || check.registered), check.result[:status] == "fail"
    return [{ status: "fail", output: "no result within #{every} s" }, true] if check.started && now - check.started > every

    text = "stale: did not run for #{age.round} s, every #{every} s; last: #{check.result[:output] || "nothing"}"
    return [{ **check.result, status: "fail", output: text }, is_failed] if age > 3 * every

    [check.result.empty? ? { status: "warn", output: "no result yet" } : check.result, is_failed]
  end

  def talk(client)
    while IO.select([client], nil, nil, 60) && (method, target, version = client.gets("\r\n", 8192)&.split)
      is_last = version != "HTTP/1.1"
      until (line = client.gets("\r\n", 8192).to_s).strip.empty?
        is_last ||= line.match?(/\Aconnection: *close/i)
      end
      status, headers, body = answer(method, target.to_s)
      headers = headers.merge("connection" => "close") if is_last ||= status == 405 # a body may follow
      lines = ["HTTP/1.1 #{status} #{REASONS[status]}", *headers.map { |pair| pair.join(": ") }]
      client.write("#{lines.join("\r\n")}\r\n\r\n#{body.join}")
      break if is_last
    end
  rescue SystemCallError, IOError
    nil
  ensure
    client.close
  end
end
