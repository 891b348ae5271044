SELECT CORR(flipper_length_mm, body_mass_g) AS "flipper and mass",
       REGR_SLOPE(body_mass_g, flipper_length_mm) AS slope,
       REGR_INTERCEPT(body_mass_g, flipper_length_mm) AS intercept
FROM penguins
