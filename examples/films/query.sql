SELECT COUNT(*) AS directors,
       AVG(CASE WHEN won >= 1 THEN 1 ELSE 0 END) AS "won an Oscar",
       CORR(LEAST(GREATEST(films, 3), 20), LEAST(GREATEST(best, 4), 9)) AS "films and rating"
FROM films
WHERE films >= 3
