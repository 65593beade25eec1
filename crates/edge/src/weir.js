// weir.js: sends a browser's measurements as beacons (docs/edge.md). No cookies; silent under Do Not Track.
(function (w, d) {
  var n = navigator, p = w.performance, me = d.currentScript;
  if (n.doNotTrack === "1" || w.doNotTrack === "1" || n.globalPrivacyControl || !p || !me) return;
  var url = me.src.replace(/\/weir\.js.*$/, ""), site = me.getAttribute("data-site") || location.hostname;
  var visit = Math.random().toString(36).slice(2) + Math.random().toString(36).slice(2);
  var seq = 0, seen = 0, since = d.hidden ? 0 : p.now(), loaded = 0, waiting = [], vitals = {};
  function round(x) { return Math.round(x * 1000) / 1000; }
  function watch(type, take, more) {
    try {
      new PerformanceObserver(function (list) { list.getEntries().forEach(take); })
        .observe(Object.assign({ type: type, buffered: true }, more));
    } catch (e) { /* an older browser measures less */ }
  }
  watch("paint", function (e) { if (e.name === "first-contentful-paint") vitals.fp = round(e.startTime); });
  watch("largest-contentful-paint", function (e) { vitals.lp = round(e.startTime); });
  watch("layout-shift", function (e) { if (!e.hadRecentInput) vitals.ls = round((vitals.ls || 0) + e.value); });
  watch("event", function (e) { if (e.interactionId) vitals.ix = Math.max(vitals.ix || 0, round(e.duration)); },
    { durationThreshold: 40 });
  function visible() { return seen + (since ? p.now() - since : 0); }
  function beacon(kind, more) {
    var all = Object.assign({ h: site, p: location.pathname, v: visit, n: seq++, k: kind, s: Math.round(visible()) },
      vitals, more);
    waiting.push(Object.keys(all).map(function (k) { return k + "=" + encodeURIComponent(all[k]); }).join("&"));
    while (waiting.length > 20) waiting.shift(); // the gap in the sequence shows the loss
  }
  function send(last) {
    if (!waiting.length) return;
    var body = waiting.join("\n");
    if (last) {
      if (n.sendBeacon(url, body)) waiting = [];
      return;
    }
    var sent = waiting.slice();
    fetch(url, { method: "POST", body: body, credentials: "omit", keepalive: true }).then(function (answer) {
      if (answer.ok) waiting = waiting.filter(function (b) { return sent.indexOf(b) < 0; });
    }, function () { /* stays until the next ping */ });
  }
  function load() {
    var t = p.getEntriesByType("navigation")[0] || {}, more = {};
    function span(k, from, to) { if (to > 0 && to >= from) more[k] = round(to - from); }
    span("d", t.domainLookupStart, t.domainLookupEnd);
    span("c", t.connectStart, t.connectEnd);
    span("b", 0, t.responseStart);
    span("r", 0, t.responseEnd);
    span("o", 0, t.domContentLoadedEventEnd);
    span("l", 0, t.loadEventEnd);
    (t.serverTiming || []).forEach(function (s) { if (s.name === "weir") more.i = s.description; });
    loaded = 1;
    beacon("load", more);
    send();
  }
  if (d.readyState === "complete") setTimeout(load);
  else w.addEventListener("load", function () { setTimeout(load); });
  setInterval(function () {
    if (d.hidden || !loaded) return;
    beacon("ping");
    send();
  }, 15000);
  d.addEventListener("visibilitychange", function () {
    if (!d.hidden) { since = p.now(); return; }
    seen = visible();
    since = 0;
    if (loaded) { beacon("end"); send(1); }
  });
})(window, document);
