"""Operations in the fixed order of docs/order.md."""
