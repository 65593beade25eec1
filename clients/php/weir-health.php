<?php
// Health digest of an application: GET /weir/health and /weir/health/live.
//
//     require __DIR__ . '/weir-health.php';
//
//     $feed = fn () => ['observedValue' => 62, 'observedUnit' => '/s', 'threshold' => 50];
//     $health = new WeirHealth('shop', release: '1.4.2', file: sys_get_temp_dir() . '/shop-health.json');
//     $health->register('workers', fn () => count(glob('/proc/[0-9]*')) > 1, every: 5, scope: 'self');
//     $health->register('feed:rate', $feed, every: 10, scope: 'dependency');
//     $health->serve(9201); // blocks; in FPM: if (WeirHealth::respond(FILE)) exit;
//
// PHP has no threads, so a separate command (a service that runs `php health.php`) has a process
// for each check. It answers on its port, and writes the results to a file, with which the
// application's own requests answer. A check passes when it returns anything but false, or members
// of its result; it fails when it throws, exits or returns false. The command needs pcntl.
declare(strict_types=1);

final class WeirHealth {
    private const MEMBERS = ['status' => 0, 'observedValue' => 0, 'observedUnit' => 0, 'threshold' => 0, 'output' => 0];
    private array $fns = [], $data, $streams = [], $buffers = [];

    public function __construct(string $service, ?string $release = null, private ?string $file = null, private ?Closure $clock = null) {
        $this->data = ['head' => array_filter(['serviceId' => $service, 'releaseId' => $release]), 'checks' => []];
        $this->clock ??= fn () => hrtime(true) / 1e9; // the same in all processes of a host
    }

    public function register(string $name, callable $fn, float $every, string $scope): void {
        if (!in_array($scope, ['self', 'dependency'], true) || !($every > 0) || isset($this->fns[$name])) {
            throw new InvalidArgumentException("cannot register check `$name`: the scope is self or dependency, every > 0, the name new");
        }
        $this->fns[$name] = $fn;
        $this->data['checks'][$name] = ['every' => $every, 'scope' => $scope, 'started' => null, 'ended' => ($this->clock)(), 'result' => ['status' => 'warn', 'output' => 'no result yet']];
    }

    /** Runs the checks, and answers on a port of the loopback until the process ends. */
    public function serve(int $port, ?callable $ready = null): never {
        $this->streams['server'] = stream_socket_server("tcp://127.0.0.1:$port", $code, $why) ?: throw new RuntimeException($why);
        array_map(fn ($name) => $this->start((string) $name, 0), array_keys($this->fns));
        $ready && $ready((int) substr(strrchr(stream_socket_get_name($this->streams['server'], false), ':'), 1));
        while (true) {
            [$read, $none] = [$this->streams, null];
            foreach (stream_select($read, $none, $none, null) ? $read : [] as $key => $stream) {
                match (explode(':', $key)[0]) {
                    'server' => ($client = @stream_socket_accept($stream, 0)) && $this->streams['client:' . (int) $client] = $client,
                    'client' => $this->talk($key, $stream),
                    'check' => $this->take(substr($key, 6), fgets($stream)),
                };
            }
        }
    }

    private function start(string $name, float $pause): void {
        [$own, $child] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        if (pcntl_fork() === 0) {
            array_map(fclose(...), [...$this->streams, $own]);
            usleep((int) ($pause * 1e6));
            while (@fwrite($child, "started\n")) {
                fwrite($child, json_encode(self::run($this->fns[$name]), JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
                usleep((int) ($this->data['checks'][$name]['every'] * 1e6));
            }
            exit;
        }
        fclose($child);
        $this->streams["check:$name"] = $own;
    }

    private static function run(callable $fn): array {
        try {
            ($value = $fn()) !== false || throw new UnexpectedValueException('the check returned false');
            $result = array_intersect_key(is_array($value) ? $value : [], self::MEMBERS) + ['status' => 'pass'];
            $result = array_filter($result, fn ($member) => is_float($member) ? is_finite($member) : $member !== null);
            in_array($result['status'], ['pass', 'warn', 'fail'], true) || throw new UnexpectedValueException("unknown status {$result['status']}");
        } catch (Throwable $error) {
            $result = ['status' => 'fail', 'output' => substr(get_class($error) . ': ' . $error->getMessage(), 0, 500)];
        }
        return $result + ['time' => gmdate('Y-m-d\TH:i:s\Z')];
    }

    /** Takes a line of a check's process; false when that has ended. */
    private function take(string $name, string|false $line): void {
        $check = &$this->data['checks'][$name];
        if ($line === "started\n") {
            $check['started'] = ($this->clock)();
        } else {
            $result = json_decode((string) $line, true) ?? ['status' => 'fail', 'output' => 'the check ended its process'];
            [$check['result'], $check['started'], $check['ended']] = [$result, null, ($this->clock)()];
        }
        if ($line === false) {
            unset($this->streams["check:$name"]);
            pcntl_waitpid(-1, $status, WNOHANG);
            $this->start($name, $check['every']);
        }
        $this->file !== null && file_put_contents("$this->file.new", json_encode($this->data)) && rename("$this->file.new", $this->file);
    }

    private function talk(string $key, $stream): void {
        $this->buffers[$key] = ($this->buffers[$key] ?? '') . ($data = (string) fread($stream, 8192));
        $isLast = $data === '' || strlen($this->buffers[$key]) > 65_536;
        while (!$isLast && count($parts = explode("\r\n\r\n", $this->buffers[$key], 2)) === 2) {
            $this->buffers[$key] = $parts[1];
            [$method, $target, $version] = explode(' ', strtok($parts[0], "\r"), 3) + ['', '', ''];
            [$status, $headers, $body] = self::answer($this->data, ($this->clock)(), $method, $target) ?? [404, [], ''];
            $isLast = $status === 405 || $version !== 'HTTP/1.1' || preg_match('/^connection: *close/im', $parts[0]);
            $lines = ["HTTP/1.1 $status -", ...$headers, 'Content-Length: ' . strlen($body), ...$isLast ? ['Connection: close'] : []];
            @fwrite($stream, implode("\r\n", $lines) . "\r\n\r\n" . ($method === 'HEAD' ? '' : $body));
        }
        if ($isLast) {
            unset($this->streams[$key], $this->buffers[$key]);
        }
    }

    /** Answers a request of FPM or another SAPI with the results in a file; false for other paths. */
    public static function respond(string $file, ?float $now = null): bool {
        $lost = ['every' => INF, 'scope' => 'dependency', 'result' => ['status' => 'fail', 'output' => "cannot read `$file`"], 'started' => null, 'ended' => 0];
        $data = json_decode((string) @file_get_contents($file), true) ?? ['head' => [], 'checks' => ['weir-health' => $lost]];
        $method = $_SERVER['REQUEST_METHOD'];
        [$status, $headers, $body] = $answer = self::answer($data, $now ?? hrtime(true) / 1e9, $method, $_SERVER['REQUEST_URI']);
        array_map(fn ($header) => header($header, response_code: $status), $headers ?? []);
        echo $method === 'HEAD' ? '' : $body;
        return $answer !== null;
    }

    private static function answer(array $data, float $now, string $method, string $target): ?array {
        $path = explode('?', $target)[0];
        if (!str_ends_with($path, '/weir/health') && !str_ends_with($path, '/weir/health/live')) {
            return null;
        } elseif ($method !== 'GET' && $method !== 'HEAD') {
            return [405, ['Allow: GET, HEAD'], ''];
        }
        [$status, $digest] = str_ends_with($path, '/live') ? [200, ['status' => 'pass']] : self::digest($data, $now);
        return [$status, ['Content-Type: application/health+json', 'Cache-Control: no-store'], json_encode($digest)];
    }

    private static function digest(array $data, float $now): array {
        [$hasFailed, $isWarned, $checks] = [false, false, []];
        foreach ($data['checks'] as $name => ['every' => $every, 'scope' => $scope, 'result' => $result, 'started' => $started, 'ended' => $ended]) {
            [$age, $isFailed] = [$now - $ended, $result['status'] === 'fail'];
            if ($started !== null && $now - $started > $every) {
                [$result, $isFailed] = [['status' => 'fail', 'output' => "no result within $every s"], true];
            } elseif ($age > 3 * $every) {
                $text = sprintf('stale: did not run for %.0f s, every %s s; last: %s', $age, $every, $result['output'] ?? 'nothing');
                $result = ['status' => 'fail', 'output' => $text] + $result;
            }
            [$hasFailed, $isWarned] = [$hasFailed || ($isFailed && $scope === 'self'), $isWarned || $result['status'] !== 'pass'];
            $checks[$name] = [$result + ['scope' => $scope]];
        }
        $status = $hasFailed ? 'fail' : ($isWarned ? 'warn' : 'pass');
        return [$hasFailed ? 503 : 200, ['status' => $status] + $data['head'] + ['checks' => (object) $checks]];
    }
}
