<?php
// Program of the conformance test: `conform.php DIRECTORY`; files in the directory are its faults.
// PHP's own web server is an application that answers with the file.
require __DIR__ . '/weir-health.php';

define('FAULTS', PHP_SAPI === 'cli' ? $argv[1] : getenv('FAULTS'));

function fault(string $name): ?string {
    $text = @file_get_contents(FAULTS . "/$name");
    return $text === false ? null : $text;
}

function now(): float {
    return hrtime(true) / 1e9 + (fault('later') === null ? 0 : 1000);
}

if (PHP_SAPI !== 'cli') {
    if (!WeirHealth::respond(FAULTS . '/results.json', now())) {
        echo 'application';
    }
    return true;
}

function throws(string $name): callable {
    return function () use ($name) {
        if (($text = fault($name)) !== null) {
            throw new RuntimeException($text);
        }
    };
}

function counter(): callable {
    $runs = 0;
    return function () use (&$runs) {
        return ['observedValue' => ++$runs, 'observedUnit' => 'runs', 'threshold' => 1];
    };
}

function hang(): void {
    while (fault('hang') !== null) {
        usleep(20_000);
    }
}

function odd(): mixed {
    return match (fault('odd')) {
        'false' => false,
        'warn' => ['status' => 'warn', 'output' => 'slow'],
        'status' => ['status' => 'fine'],
        'nan' => ['observedValue' => NAN, 'threshold' => INF, 'output' => 'no rate'],
        'text' => throw new RuntimeException("cannot read \"a\\b\"\n\t\xff\0" . str_repeat('x', 9000)),
        'exit' => exit(1),
        default => null,
    };
}

$health = new WeirHealth('shop', release: '1.4.2', file: FAULTS . '/results.json', clock: now(...));
$health->register('self', throws('self'), every: 0.2, scope: 'self');
$health->register('dependency', throws('dependency'), every: 0.2, scope: 'dependency');
$health->register('hang', hang(...), every: 0.2, scope: 'dependency');
$health->register('odd', odd(...), every: 0.2, scope: 'dependency');
$health->register('count', counter(), every: 30, scope: 'self');
$health->register('tick', counter(), every: 0.2, scope: 'self');
foreach ([['count', 1, 'self'], ['a', 0, 'self'], ['a', 1, 'own']] as [$name, $every, $scope]) {
    try {
        $health->register($name, hang(...), $every, $scope);
        exit("$name was accepted");
    } catch (InvalidArgumentException) {
    }
}

/** Starts PHP's web server on a port that is free, and returns the port. */
function mount(): int {
    for ($port = random_int(20_000, 32_000); ; $port++) {
        $server = proc_open([PHP_BINARY, '-S', "127.0.0.1:$port", __FILE__], [['file', '/dev/null', 'r'], 2 => ['file', '/dev/null', 'w']], $pipes, null, ['FAULTS' => FAULTS]);
        do {
            usleep(10_000);
            $connection = @fsockopen('127.0.0.1', $port);
            $isRunning = proc_get_status($server)['running'];
        } while (!$connection && $isRunning);
        if ($connection && $isRunning) {
            $GLOBALS['server'] = $server;
            return $port;
        }
    }
}

if (pcntl_fork() === 0) { // ends all when the test ends
    stream_get_contents(STDIN);
    posix_kill(0, SIGKILL);
}
$health->serve(0, fn (int $port) => print("$port " . mount() . "\n"));
