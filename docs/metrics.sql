-- Questions about the requests of a deployed service, for the SQL API of Workers Analytics Engine and for
-- Grafana. For staging, replace `production` in the name of the data set. All figures are estimates,
-- because Cloudflare samples requests: a row stands for _sample_interval * double5 requests.
-- `npm run keys -- usage` has the exact number of admitted requests.
--
-- index1: the key's id, or `anonymous`. blob1 route, blob2 method, blob3 code, blob4 plan, blob5 window,
-- blob6 data centre, blob7 country, blob8 the part of the service that failed, blob9 the database that
-- served a list. double1 status, double2 milliseconds, double3 limit, double4 remaining requests,
-- double5 requests that the row represents.

-- health: all requests; how many failed, and during how many a part of the service failed
SELECT SUM(_sample_interval * double5) AS requests,
  SUM(if(double1 >= 500, _sample_interval * double5, 0)) AS errors,
  SUM(if(blob8 != '', _sample_interval * double5, 0)) AS degraded
FROM store_orders_production
WHERE timestamp > NOW() - INTERVAL '1' HOUR;

-- authenticated: requests with a valid key; how many were refused, and the response time
SELECT SUM(_sample_interval * double5) AS requests,
  SUM(if(double1 = 429, _sample_interval * double5, 0)) AS refused,
  ROUND(quantileExactWeighted(0.95)(double2, _sample_interval), 0) AS p95_ms
FROM store_orders_production
WHERE timestamp > NOW() - INTERVAL '1' HOUR AND blob4 != '';

-- traffic: requests by hour, plan and status
SELECT toStartOfInterval(timestamp, INTERVAL '1' HOUR) AS hour, blob4 AS plan, double1 AS status,
  SUM(_sample_interval * double5) AS requests
FROM store_orders_production
WHERE timestamp > NOW() - INTERVAL '24' HOUR
GROUP BY hour, plan, status ORDER BY hour, plan, status;

-- slowest: routes by response time, in milliseconds
SELECT blob1 AS route, blob2 AS method, SUM(_sample_interval * double5) AS requests,
  ROUND(quantileExactWeighted(0.5)(double2, _sample_interval), 0) AS median_ms,
  ROUND(quantileExactWeighted(0.99)(double2, _sample_interval), 0) AS p99_ms
FROM store_orders_production
WHERE timestamp > NOW() - INTERVAL '24' HOUR
GROUP BY route, method ORDER BY p99_ms DESC, requests DESC;

-- refused: the keys that are refused most; anonymous: requests without a valid key
SELECT index1 AS key_id, blob4 AS plan, SUM(_sample_interval * double5) AS requests,
  SUM(if(double1 = 429, _sample_interval * double5, 0)) AS refused
FROM store_orders_production
WHERE timestamp > NOW() - INTERVAL '24' HOUR
GROUP BY key_id, plan HAVING refused > 0 ORDER BY refused DESC LIMIT 20;

-- near a limit: keys that had used 80 % of a window, when the log has quota_low too
SELECT index1 AS key_id, blob4 AS plan, blob5 AS quota_window, MIN(double4) AS least_left,
  MAX(double3) AS quota, SUM(_sample_interval * double5) AS requests
FROM store_orders_production
WHERE timestamp > NOW() - INTERVAL '24' HOUR AND blob4 != '' AND double4 * 5 <= double3
GROUP BY key_id, plan, quota_window ORDER BY requests DESC LIMIT 50;

-- banned: keys that sent requests while they were banned
SELECT index1 AS key_id, blob4 AS plan, MIN(timestamp) AS first_seen, MAX(timestamp) AS last_seen,
  SUM(_sample_interval * double5) AS requests
FROM store_orders_production
WHERE timestamp > NOW() - INTERVAL '24' HOUR AND blob3 = 'api_key_banned'
GROUP BY key_id, plan ORDER BY requests DESC LIMIT 50;

-- degraded: minutes in which a part of the service failed, by data centre
SELECT toStartOfInterval(timestamp, INTERVAL '1' MINUTE) AS minute, blob8 AS missing, blob6 AS region,
  SUM(_sample_interval * double5) AS requests
FROM store_orders_production
WHERE timestamp > NOW() - INTERVAL '24' HOUR AND blob8 != ''
GROUP BY minute, missing, region ORDER BY minute, missing, region;

-- errors: the share of 5xx responses for each Cloudflare data centre
SELECT blob6 AS region, SUM(_sample_interval * double5) AS requests,
  SUM(if(double1 >= 500, _sample_interval * double5, 0)) AS errors,
  ROUND(100 * SUM(if(double1 >= 500, _sample_interval * double5, 0)) / SUM(_sample_interval * double5), 3) AS percent
FROM store_orders_production
WHERE timestamp > NOW() - INTERVAL '24' HOUR
GROUP BY region ORDER BY percent DESC, requests DESC;

-- served by: with LIST_READS=nearest, the databases that served lists, and the response time
SELECT blob9 AS served_by, SUM(_sample_interval * double5) AS requests,
  ROUND(quantileExactWeighted(0.95)(double2, _sample_interval), 0) AS p95_ms
FROM store_orders_production
WHERE timestamp > NOW() - INTERVAL '24' HOUR AND blob9 != ''
GROUP BY served_by ORDER BY requests DESC, served_by;

-- key: the requests of one key by hour, route and status
SELECT toStartOfInterval(timestamp, INTERVAL '1' HOUR) AS hour, blob1 AS route, blob2 AS method,
  double1 AS status, blob3 AS code, SUM(_sample_interval * double5) AS requests, MIN(double4) AS least_left
FROM store_orders_production
WHERE timestamp > NOW() - INTERVAL '24' HOUR AND index1 = 'key_petspetspetspets'
GROUP BY hour, route, method, status, code ORDER BY hour, route, method, status, code;
