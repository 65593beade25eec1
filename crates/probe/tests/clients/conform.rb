# Program of the conformance test: `conform.rb DIRECTORY [fork]`; files in the directory are its faults.
require "socket"
require_relative "weir_health"

FAULTS = ARGV[0]
RUNS = Hash.new(0)

def fault(name)
  File.read(File.join(FAULTS, name))
rescue Errno::ENOENT
  nil
end

def count(name)
  { observedValue: RUNS[name] += 1, observedUnit: "runs", threshold: 1 }
end

clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) + (fault("later") ? 1000 : 0) }
health = WeirHealth.new("shop", release: "1.4.2", clock: clock)
%w[self dependency].each do |name|
  health.register(name, every: 0.2, scope: name) { (text = fault(name)) && raise(text) }
end
health.register("hang", every: 0.2, scope: "dependency") { sleep 0.02 while fault("hang") }
health.register("odd", every: 0.2, scope: "dependency") do
  case fault("odd")
  when "false" then false
  when "warn" then { "status" => "warn", "output" => "slow" }
  when "status" then { status: "fine" }
  when "nan" then { observedValue: Float::NAN, threshold: Float::INFINITY, output: "no rate" }
  when "text" then raise "cannot read \"a\\b\"\n\t\xff\0#{"x" * 9000}"
  when "exit" then exit(1)
  end
end
health.register("count", every: 30, scope: "self") { count("count") }
health.register("tick", every: 0.2, scope: "self") { count("tick") }
[["count", 1, "self"], ["a", 0, "self"], ["a", 1, "own"]].each do |name, every, scope|
  health.register(name, every: every, scope: scope) {}
  abort "#{name} was accepted"
rescue ArgumentError
  nil
end
if ARGV[1] == "fork"
  sleep 0.01 while RUNS["count"] < 1
  if (child = fork)
    Process.wait(child)
    exit
  end
end

# Rack, as far as a request of the test needs it.
app = health.rack(->(_env) { [200, { "content-type" => "text/plain" }, ["application"]] })
mounted = TCPServer.new("127.0.0.1", 0)
Thread.new do
  loop do
    Thread.new(mounted.accept) do |client|
      method, target, = client.gets.split
      nil until client.gets.to_s.strip.empty?
      status, headers, body = app.call("REQUEST_METHOD" => method, "SCRIPT_NAME" => "", "PATH_INFO" => target.split("?").first)
      lines = headers.map { |name, value| "#{name}: #{value}\r\n" }.join
      client.write("HTTP/1.1 #{status} -\r\nconnection: close\r\n#{lines}\r\n#{body.join}")
      client.close
    end
  end
end
puts "#{health.serve(0)} #{mounted.addr[1]}"
$stdout.flush
$stdin.read
