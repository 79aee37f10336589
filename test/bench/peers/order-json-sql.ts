/** A SQL expression for the JSON of an order, with the same bytes as the service's JSON. */
export const ORDER_JSON_SQL = `'{"id":' || id
  || ifnull(',"petId":' || pet_id, '')
  || ifnull(',"quantity":' || quantity, '')
  || ifnull(',"shipDate":"' || ship_date || '"', '')
  || CASE complete WHEN 1 THEN ',"complete":true' WHEN 0 THEN ',"complete":false' ELSE '' END
  || '}'`;
