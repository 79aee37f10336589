/** The JSON text around the values of an order, without the braces. */
export const JSON_MEMBERS = {
  id: '"id":',
  petId: ',"petId":',
  quantity: ',"quantity":',
  shipDate: ',"shipDate":"',
  afterShipDate: '"',
  complete: ',"complete":true',
  incomplete: ',"complete":false',
};

const { id, petId, quantity, shipDate, afterShipDate, complete, incomplete } = JSON_MEMBERS;

/**
 * A SQL expression for the members of an order's JSON object, without the braces. SQLite creates
 * the JSON because D1's results round integers above 2^53. No value needs escaping: the schema
 * allows only integers, booleans and one form of date.
 */
export const ORDER_JSON_MEMBERS = `'${id}' || orders.id
  || coalesce('${petId}' || orders.pet_id, '')
  || coalesce('${quantity}' || orders.quantity, '')
  || coalesce('${shipDate}' || orders.ship_date || '${afterShipDate}', '')
  || CASE orders.complete WHEN 1 THEN '${complete}' WHEN 0 THEN '${incomplete}' ELSE '' END`;

/**
 * The length in bytes of the longest order as JSON, including its braces and the comma after it.
 */
export const MAX_ORDER_BYTES =
  '{"id":-9223372036854775808,"petId":-9223372036854775808,"quantity":-9223372036854775808,"shipDate":"0000-00-00T00:00:00.000Z","complete":false},'
    .length;
