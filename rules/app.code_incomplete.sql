/*---
id = "app.code_incomplete"
title = "Deployed code is incomplete or does not load"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "60s"
key = ["log_program", "what"]
needs = ["log", "request"]
when = """
select 1 from log where (body like '%ot found%' or body like '%undefined %' or body like '%ailed opening required%' or body like '%PHP Parse error:%' or body like '%yntaxError: %' or body like '%syntax error%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (body like '%ModuleNotFoundError: %' or body like '%ImportError: %' or body like '%ImproperlyConfigured: %' or body like '%TemplateDoesNotExist: %' or body like '%TemplateNotFound: %' or body like '%annot find module %' or body like '%ERR_MODULE_NOT_FOUND%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (body like '%cannot load such file -- %' or body like '%uninitialized constant %' or body like '%MissingTemplate%' or body like '%MissingExactTemplate%' or body like '%AssetNotFound%' or body like '%Missing partial%' or body like '%UnsatisfiedLinkError%' or body like '%is not present in the asset pipeline%' or body like '%ClassDefFoundError%' or body like '%ClassNotFoundException%' or body like '%NoSuchMethodError%' or body like '%UnsupportedClassVersionError%' or body like '%Could not load file or assembly %' or body like '%error while loading shared libraries: %') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['error.stack_trace'], attrs['exception'], attrs['Exception'], attrs['exception.message'], attrs['exc_info'], attrs['stack_trace']) is not null and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.closes_early", "app.crash_loop", "app.down", "app.empty_pages", "app.errors",
  "app.errors_quiet", "app.workers_die", "proxy.bad_gateway", "proxy.haproxy_errors",
  "proxy.no_live_upstreams", "proxy.upstream_errors", "slo.burning",
]
subject = "{shown} on {host}"
summary = "{shown} on {host}: {what_text}, {lines} times in a minute{share_text}; it logs \"{line}\""
why = "{why_text} No retry and no other member helps if all have the same release: each request that reaches this code fails."
look_at = "The line names the file, class or module. What was deployed last, and did each step end well (dependencies installed, build, cache cleared, workers restarted)? Is the release on this host the same as on its siblings?"
silent_when = "Fewer than 3 such lines in a minute. A page if at least 20 % of the host's requests failed meanwhile, a mail from 2 % or if no proxy's log is read here, else a note: one broken page that few visit. Only lines, and error fields of structured logs, that start with the error of a language count (PHP, Python, Node.js, Ruby, Java, .NET, the dynamic linker), and of a web server's log only the errors of PHP itself."
fix = "{fix_text} Check: the lines end."
source = "PHP Zend/zend_execute_API.c, main/fopen_wrappers.c; Python import system; Node.js MODULE_NOT_FOUND; Ruby LoadError; JVM LinkageError; ld.so(8); github.com/lorisleiva/laravel-deployer #51, github.com/grokability/snipe-it #10888"
[text.what_text]
missing = "code that it needs is missing"
syntax = "its code cannot be parsed"
template = "a template or asset is missing"
config = "its configuration is incomplete"
[text.why_text]
missing = "A class, function, module or library that the code asks for is not there: dependencies were not installed, a file was left out, an old cache (opcache, autoloader, bytecode) points at the release before, or the runtime's version changed."
syntax = "The file was cut off or merged wrongly, or it is written for a newer version of the language than this host has."
template = "A page's template or its built assets (manifest, style sheets, scripts) are not in this release: the build did not run or its result was not copied."
config = "The framework refuses to work because a setting or secret is missing in this environment."
[text.fix_text]
missing = "Roll back to the release before; then install dependencies from the lock file in the build (`composer install --no-dev -o`, `pip install -r`, `npm ci`, `bundle install`) and restart the workers after the switch (PHP: reload php-fpm, or `opcache_reset`)."
syntax = "Roll back; let the build parse each file with the production version (`php -l`, `python -m compileall`, `node --check`)."
template = "Roll back, or run the build step (`collectstatic`, `assets:precompile`, `npm run build`) and copy its result to this host."
config = "Set what the line names in the service's environment, then restart it."
[text.share_text]
known = "; {failed} of {requests} requests failed"
unknown = ""
---*/
with spoken as (
  -- As in app.service_unreachable: structured logs have the error beside the message, and PHP's stand in the web server's log.
  select host, ts, case when program in ('nginx', 'apache') or program like 'php%fpm%' then 'PHP' else coalesce(nullif(program, ''), 'other') end as program,
    regexp_replace(regexp_replace(
      case
        when program = 'nginx' and message_template like 'FastCGI sent in stderr: %' then regexp_match(body, '^FastCGI sent in stderr: "PHP message: (PHP (?:Fatal error|Recoverable fatal error|Parse error): +.*)')[1]
        when program = 'apache' and attrs['module'] = 'proxy_fcgi' then regexp_match(body, '^AH01071: Got error ''PHP message: (PHP (?:Fatal error|Recoverable fatal error|Parse error): +.*)')[1]
        when program = 'apache' and attrs['module'] like 'php%' and severity <> 'notice' then regexp_match(body, '^(PHP (?:Fatal error|Recoverable fatal error|Parse error): +.*)')[1]
        when program like 'php%fpm%' then regexp_match(body, '^(?:\[[^\]]+\] WARNING: )?(?:\[pool [^\]]+\] )?child [0-9]+ said into stderr: "NOTICE: PHP message: (PHP (?:Fatal error|Recoverable fatal error|Parse error): +.*)')[1]
        when program in ('nginx', 'apache', 'apache2', 'httpd') then null
        else regexp_replace(regexp_replace(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.stack_trace'], nullif(concat_ws(': ', attrs['error.type'], attrs['error.message']), ''),
            nullif(concat_ws(': ', attrs['exception.class'], attrs['exception.message']), ''), attrs['exception'], attrs['Exception'], attrs['exc_info'], attrs['stack_trace'], body), '\x1b\[[0-9;]*m', '', 'g'),
            '(?s)^(?:Traceback .*\n)?([^\n]+).*$', '\1')
      end,
      concat('^ *(redis: |\[(mysql|sarama)\] )?(\[Nest\] [0-9]+ +- [0-9/]+, [0-9:]+ [AP]M +|[0-9-]+ [0-9:.]+:(WARN|ERROR):[A-Za-z0-9_.]+:[A-Za-z0-9_-]+: |\[?[0-9TZ :.,/+-]+\]?:? +(UTC |std(out|err) [FP] |([a-z_]+=[^ ]+ )+\[(error|critical)\] )?|\[[0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9:.]+( [A-Z][A-Za-z_/]+)?\] |[A-Z], \[[0-9T:.-]+ #[0-9]+\] +)?',
        '([A-Za-z0-9_./-]+[.]go:[0-9]+:? |pid=[0-9]+ tid=[a-z0-9]+ ([a-z]+=[A-Za-z0-9:_-]+ )*|Rack app [(]"[A-Z]+ [^" ]*" - [(][0-9a-fA-F.:]+[)][)]: )?',
        '((\[[A-Za-z0-9_.:#/-]+\] )?(ERROR|WARN|FATAL|SEVERE) +(\[[A-Za-z0-9_.:#/-]+\] )?[a-z][A-Za-z0-9_]*([.][A-Za-z0-9_$]+)+ *(- |: )|',
        '(ERROR|WARN|FATAL) +[0-9]+ --- (\[[^\]]+\] ){1,2}[A-Za-z0-9_.$/\[\]]+ *: |(FATAL|ERROR|WARN) -- : (\[[A-Za-z0-9-]+\] )*|',
        '[a-z]+[.](WARNING|ERROR|CRITICAL|ALERT|EMERGENCY): |([A-Za-z0-9_.]+ )?- (ERROR|CRITICAL|WARNING) - |(ERROR|CRITICAL):[A-Za-z0-9_.]+:|(ERROR|CRITICAL|WARNING)/[A-Za-z0-9-]+\] (consumer: )?|\| (ERROR|CRITICAL|WARNING) +\| [A-Za-z0-9_.<>]+:[A-Za-z0-9_.<>]+:[0-9]+ - |',
        '(ERR|FTL|WRN)\] |(ERROR|WARN|FATAL) \[[A-Za-z0-9_:]+\] |(ERROR|WARN) +\[[A-Za-z0-9_.$-]+\] [(][A-Za-z0-9_# -]+[)] |(ERROR|WARN|WARNING|CRITICAL|FATAL) +\[?[a-z0-9_]+((::|[.])[a-z0-9_]+)*(: |\]:? +)|(ERROR|CRITICAL) [0-9-]+ [0-9:,]+ [A-Za-z0-9_.]+ [0-9]+ [0-9]+ |',
        '(\[[0-9]+\] )?\[?(ERROR|FATAL|CRITICAL|WARN|WARNING|LOG)\]?:? +|\[(error|fatal)\] +|(error|fatal): +)?',
        '(PHP (Fatal error|Recoverable fatal error|Parse error): +|Unhandled exception[.] |(failed to connect|ping|pq|redis|sql|mysql|pgx|database|db|cache|store|error|connect|heartbeat): )?(Uncaught (exception )?)?(#<)?'), ''), '^Caused by: ', '') as text
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and coalesce(program, '') not in ('haproxy', 'caddy', 'traefik', 'envoy', 'sshd', 'weir', 'postgresql', 'mysqld', 'redis')
    and regexp_like(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.stack_trace'], nullif(concat_ws(': ', attrs['error.type'], attrs['error.message']), ''),
            nullif(concat_ws(': ', attrs['exception.class'], attrs['exception.message']), ''), attrs['exception'], attrs['Exception'], attrs['exc_info'], attrs['stack_trace'], body), '[Nn]ot found|undefined |[Ff]ailed opening required|PHP Parse error|yntaxError|syntax error|ModuleNotFoundError|ImportError|ImproperlyConfigured|TemplateDoesNotExist|TemplateNotFound|annot find module|MODULE_NOT_FOUND|cannot load such file|uninitialized constant|MissingTemplate|MissingExactTemplate|AssetNotFound|Missing partial|UnsatisfiedLinkError|asset pipeline|NoClassDefFoundError|ClassNotFoundException|NoSuchMethodError|UnsupportedClassVersionError|Could not load file or assembly|shared libraries')
  -- Also keeps the text from being computed anew for each pattern.
  limit 50000
),
matched as (
  select host, program, text,
    case
      when regexp_like(text, '^(Error: )?(Class|Interface|Trait|Enum) "?''?[A-Za-z0-9_\\]+"?''? not found|^(Error: )?Call to undefined (function|method) [A-Za-z0-9_\\]+[:(]|^((Error: )?|(require|include)(_once)?[(][)]: )Failed opening required ''') then 'missing'
      when regexp_like(text, '^(ModuleNotFoundError: No module named |ImportError: (cannot import name |lib[^ ]+: cannot open shared object|No module named ))') then 'missing'
      when regexp_like(text, '^(Uncaught )?Error( \[ERR_MODULE_NOT_FOUND\])?: Cannot find (module|package) ''') then 'missing'
      when regexp_like(text, '^(LoadError [(:] ?cannot load such file -- |NameError [(:] ?uninitialized constant [A-Z])') or regexp_like(text, '^[^ ]+:[0-9]+:in [`''][^'']+'': cannot load such file -- [^ ]+ [(]LoadError[)]$') then 'missing'
      when regexp_like(text, '^(Exception in thread "[^"]+" )?java\.lang\.(NoClassDefFoundError|ClassNotFoundException|NoSuchMethodError|UnsupportedClassVersionError|UnsatisfiedLinkError): ') then 'missing'
      when regexp_like(text, '^System\.IO\.FileNotFoundException: Could not load file or assembly ') then 'missing'
      when regexp_like(text, '^[A-Za-z0-9_./-]+: (error while loading shared libraries: lib|/lib[^ ]+: version `[A-Z]+_[0-9.]+'' not found)') then 'missing'
      -- A request's body that is no JSON is the visitor's.
      when regexp_like(text, 'JSON') then null
      when regexp_like(text, '^(syntax error, unexpected |ParseError: syntax error, |SyntaxError: (invalid syntax|unexpected |Unexpected token|Cannot use import statement|Unexpected identifier|Invalid or unexpected token|Missing initializer))') then 'syntax'
      when regexp_like(text, '^(django[.]template[.]exceptions[.])?TemplateDoesNotExist: |^(jinja2[.]exceptions[.])?TemplateNotFound: |^ActionView::(MissingTemplate|Template::Error [(](Missing partial|The asset "))|^ActionController::MissingExactTemplate|^(ActionView::Template::Error [(])?(Sprockets::Rails::Helper::)?AssetNotFound|^ActionView::Template::Error [(]The asset "[^"]+" is not present in the asset pipeline') then 'template'
      when regexp_like(text, '^(django[.]core[.]exceptions[.])?ImproperlyConfigured: ') then 'config'
    end as what
  from spoken
  where text is not null
),
counted as (
  select host, program, what, count(*) as lines, max(substr(text, 1, 140)) as line
  from matched where what is not null
  group by host, program, what
),
answers as (
  select host, count(*) as requests, count(*) filter (where http_response_status_code >= 500 or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now
  group by host
)
select c.host, c.program, c.program as log_program, c.what, c.lines, c.line, a.requests, a.failed,
  case when c.program = 'other' then 'an application' else c.program end as shown,
  c.what as what_text, c.what as why_text, c.what as fix_text,
  case when a.failed > 0 then 'known' else 'unknown' end as share_text,
  case when a.requests >= 10 and a.failed >= 0.2 * a.requests then 'page'
    when coalesce(a.requests, 0) = 0 or a.failed >= 0.02 * a.requests then 'mail' else 'note' end as class
from counted c
left join answers a on a.host = c.host
where c.lines >= 3
