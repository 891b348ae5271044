SELECT free, COUNT(*) AS persons, AVG(mdvis) AS visits, COUNT(*) FILTER (WHERE mdvis >= 1) / COUNT(*) AS "any visit"
FROM visits
GROUP BY free
HAVING COUNT(*) > 1000
ORDER BY visits DESC
