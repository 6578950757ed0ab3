-- Three queries over the streams of one shop. Their common plan: clash explain examples/orders.sql
-- statistics: statistics.json

-- name: delivery
-- what was paid for, and where is it?
SELECT o.order_id, p.amount, s.warehouse, c.hub
FROM orders o
  JOIN payments p ON o.order_id = p.order_id
  JOIN shipments s ON o.order_id = s.order_id
  JOIN scans c ON s.shipment_id = c.shipment_id;

-- name: conversion
-- which pages lead to money?
SELECT c.page, o.order_id, p.amount
FROM clicks c, orders o, payments p
WHERE c.customer_id = o.customer_id AND o.order_id = p.order_id;

-- name: refunds
-- who writes in about a payment?
SELECT t.subject, o.order_id, p.amount
FROM tickets t
  JOIN orders o ON t.customer_id = o.customer_id
  JOIN payments p ON o.order_id = p.order_id;
