//! `beacon`: browser beacons about page loads.

table! {
    /// A page's beacon, measured in the visitor's browser and received by `weir edge`.
    Beacon, BeaconRows = "beacon";
    grain: "one row per beacon that arrived";
    source: "`weir.js` in the visitor's browser, or any request to the beacon's path";
    sort: [site, ts];
    1 ts: Time = "When the edge had received it.";
    2 host: Text = "The host of the edge.";
    3 site: OptText = "The site that the page belongs to: the parameter `h`, else the host name of the page; NULL when neither came.";
    4 page: OptText = "Path of the page; NULL when not sent.";
    5 visit: OptText = "A random name that lives as long as the page is open (`v`); no cookie. NULL when not sent.";
    6 sequence: OptInt = "Counts the beacons of a visit from 0 (`n`); a gap is a lost beacon. NULL when not sent.";
    7 kind: Text = "`load`, `ping`, `end`, or `other` when not sent (`k`).";
    8 visible_seconds: OptFloat = "How long the page has been visible (`s`); NULL when not sent.";
    9 client_address: Text = "The visitor's address, cut to its network before it is stored: /24 of IPv4, /48 of IPv6.";
    10 user_agent_original: OptText = "The header User-Agent; NULL when absent.";
    11 is_bot: Flag = "Whether the user agent calls itself a bot, a crawler or a program.";
    12 is_absurd: Flag = "Whether a timing is negative, later than a later one, or over an hour; such timings are NULL.";
    13 dns_seconds: OptFloat = "Name lookup (Navigation Timing); NULL when not sent.";
    14 connect_seconds: OptFloat = "Connect time, including TLS; NULL when not sent.";
    15 first_byte_seconds: OptFloat = "From the start of the navigation to the first byte of the response; NULL when not sent.";
    16 response_seconds: OptFloat = "From the start of the navigation to the last byte of the response; NULL when not sent.";
    17 dom_ready_seconds: OptFloat = "From the start of the navigation until the document was ready; NULL when not sent.";
    18 load_seconds: OptFloat = "From the start of the navigation until everything was loaded; NULL when not sent.";
    19 first_paint_seconds: OptFloat = "First contentful paint; NULL when not sent.";
    20 largest_paint_seconds: OptFloat = "Largest contentful paint so far; NULL when not sent.";
    21 layout_shift: OptFloat = "Cumulative layout shift so far, without unit; NULL when not sent.";
    22 interaction_seconds: OptFloat = "The longest interaction so far; NULL when not sent.";
    23 request_id: OptText = "The id of the page's own request (from `Server-Timing`), which joins it to the rows of the other tiers; NULL when not known.";
}
