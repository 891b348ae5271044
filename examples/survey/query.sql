SELECT region, COUNT(*) AS answers, AVG(CASE WHEN highbp = 1 THEN 1 ELSE 0 END) AS "high blood pressure"
FROM survey
GROUP BY region
ORDER BY "high blood pressure" DESC
