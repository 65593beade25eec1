<?php
// A drill's application in PHP-FPM: a page from MariaDB, with a connection for each request, or
// one that takes the milliseconds in the file `slow` beside it.
$slow = @file_get_contents(__DIR__ . '/slow');
if ($slow !== false) {
    usleep(1000 * (int) $slow);
}
if (getenv('STORE') !== false) {
    $shop = new mysqli('127.0.0.1', 'shop', '', 'shop', (int) getenv('STORE'));
    $shop->query('update stock set n = n + 1');
}
header('Content-Type: text/plain');
echo str_repeat("hello\n", 2000);
