/** The JSON text of one order in SQL: the service's bytes, written the direct way. */
export const ORDER_JSON_SQL = `'{"id":' || id
  || ifnull(',"petId":' || pet_id, '')
  || ifnull(',"quantity":' || quantity, '')
  || ifnull(',"shipDate":"' || ship_date || '"', '')
  || CASE complete WHEN 1 THEN ',"complete":true' WHEN 0 THEN ',"complete":false' ELSE '' END
  || '}'`;
