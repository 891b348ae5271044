SELECT name, COUNT(DISTINCT tailnum) AS planes
FROM flights LEFT JOIN airlines ON flights.carrier = airlines.carrier
GROUP BY name
ORDER BY planes DESC
LIMIT 5
